/* Memory that was there when it was registered, and may have been unmapped or protected since. Adapters pin pages, so
 * that programs get away with it; here an access would be a signal and the program's end. So what may fault is
 * tried: it costs some stores, and no system call. (guarded.h asks the kernel to copy: for memory that is expected to come
 * and go.)
 *
 * The handlers of SIGSEGV and SIGBUS pass on whatever does not happen in a try. Any thread may call all of this.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_FAULT_H
#define UROCE_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"
#include "base/tsan.h"

/* Installs the handlers, or does so again if the program has installed its own meanwhile; these are called for what
 * is not ours. For whoever registers memory. */
void fault_arm(void);

/* Whether SIGBUS, which an access to a file that has become shorter makes, would come to us now: the program may have a
 * handler of its own by now. Takes a system call. */
bool fault_is_armed(void);

/* Calls access(arg), which takes no lock and leaves nothing half done that matters. False: it has faulted, and was left
 * there. */
bool fault_try(void (*access)(void *arg), void *arg);

/* copy_in_order(). False: it has faulted; some bytes may have been copied. */
bool fault_copy(char *to, const void *from, size_t length);

/* The same in any order, from memory that is there. What is small is stored by instructions that stand in a table with the place
 * where the thread goes on if one faults: where the compiler knows how, a try of these costs nothing. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(UNDER_TSAN)
/* *failed is set if it faults. */
static inline void fault_put(char *to, const char *from, uint32_t *failed)
{
	typedef float sixteen_bytes __attribute__((vector_size(16)));
	sixteen_bytes piece;

	memcpy(&piece, from, sizeof(piece));
	__asm__ volatile("1: movups %2, (%1)\n"
			 "2:\n"
			 ".pushsection fault_stores, \"a\"\n"
			 ".balign 4\n"
			 ".long 1b - ., 2b - .\n"
			 ".popsection"
			 : "+a"(*failed) /* which the handler knows: on_fault() */
			 : "r"(to), "x"(piece)
			 : "memory");
}

extern _Thread_local bool fault_unblocked;
void fault_unblock(void);

static inline bool fault_store(char *to, const void *from, size_t length)
{
	size_t middle = length > 32 ? 16 : 0;
	const char *bytes = from;
	uint32_t failed = 0;

	if (unlikely(length < 16 || length > 64))
		return fault_copy(to, from, length);
	if (unlikely(!fault_unblocked))
		fault_unblock();
	fault_put(to, bytes, &failed);
	fault_put(to + middle, bytes + middle, &failed);
	fault_put(to + length - 16 - middle, bytes + length - 16 - middle, &failed);
	fault_put(to + length - 16, bytes + length - 16, &failed);
	return likely(!failed);
}
#else
static inline bool fault_store(char *to, const void *from, size_t length)
{
	return fault_copy(to, from, length);
}
#endif

#endif
