/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that was there when it was registered, and may have been unmapped or protected since. Adapters pin pages, so
 * that programs get away with it; here an access would be a signal and the program's end. So what may fault is
 * tried: it costs some stores, and no system call. (guarded.h asks the kernel to copy: for memory that is expected to
 * come and go.)
 *
 * The handlers of SIGSEGV and SIGBUS pass on whatever does not happen in a try. Any thread may call all of this. */
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

/* copy_in_order(). False: it has faulted; some bytes may have been copied. What is small is copied by instructions that
 * stand in a table with the place where the thread goes on if one faults: where the compiler knows how, a try of these
 * costs nothing. */
static inline bool fault_copy(char *to, const void *from, size_t length);
/* The same in any order, to memory that is there; and from memory that is there. */
static inline bool fault_load(char *to, const void *from, size_t length);
static inline bool fault_store(char *to, const void *from, size_t length);

/* fault_copy() of any length. */
bool fault_copy_any(char *to, const void *from, size_t length);

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(UNDER_TSAN)
typedef float fault_piece __attribute__((vector_size(16)));

/* An instruction of the table. Its first operand, in rax, is set by the handler if it faults: on_fault() */
#define FAULT_TRY(instruction)                 \
	"1: " instruction "\n"                 \
	"2:\n"                                 \
	".pushsection fault_accesses, \"a\"\n" \
	".balign 4\n"                          \
	".long 1b - ., 2b - .\n"               \
	".popsection"

static inline fault_piece fault_get(const char *from, uint32_t *failed)
{
	fault_piece piece;

	__asm__ volatile(FAULT_TRY("movups (%2), %1") : "+a"(*failed), "=x"(piece) : "r"(from) : "memory");
	return piece;
}

static inline void fault_put(char *to, fault_piece piece, uint32_t *failed)
{
	__asm__ volatile(FAULT_TRY("movups %2, (%1)") : "+a"(*failed) : "r"(to), "x"(piece) : "memory");
}

static inline uint64_t fault_get_word(const char *from, uint32_t *failed)
{
	uint64_t word;

	__asm__ volatile(FAULT_TRY("movq (%2), %1") : "+a"(*failed), "=r"(word) : "r"(from) : "memory");
	return word;
}

static inline void fault_put_word(char *to, uint64_t word, uint32_t *failed)
{
	__asm__ volatile(FAULT_TRY("movq %2, (%1)") : "+a"(*failed) : "r"(to), "r"(word) : "memory");
}

extern _Thread_local bool fault_unblocked;
void fault_unblock(void);

/* 16 to 64 bytes are four pieces, which overlap: where each begins. */
static inline size_t fault_piece_at(size_t length, int i)
{
	size_t middle = length > 32 ? 16 : 0;

	return i == 0 ? 0 : i == 1 ? middle : i == 2 ? length - 16 - middle : length - 16;
}

static inline bool fault_store(char *to, const void *from, size_t length)
{
	uint32_t failed = 0;
	fault_piece piece;

	if (unlikely(length < 16 || length > 64))
		return fault_copy_any(to, from, length);
	if (unlikely(!fault_unblocked))
		fault_unblock();
	for (int i = 0; i < 4; i++) {
		memcpy(&piece, (const char *)from + fault_piece_at(length, i), sizeof(piece));
		fault_put(to + fault_piece_at(length, i), piece, &failed);
	}
	return likely(!failed);
}

static inline bool fault_load(char *to, const void *from, size_t length)
{
	uint32_t failed = 0;
	fault_piece piece;

	if (unlikely(length < 16 || length > 64))
		return fault_copy_any(to, from, length);
	if (unlikely(!fault_unblocked))
		fault_unblock();
	for (int i = 0; i < 4; i++) {
		piece = fault_get((const char *)from + fault_piece_at(length, i), &failed);
		memcpy(to + fault_piece_at(length, i), &piece, sizeof(piece));
	}
	return likely(!failed);
}

/* A word that ends the buffer is stored last, and whole. All is loaded before anything is stored, as the two may
 * overlap. */
static inline bool fault_copy(char *to, const void *from, size_t length)
{
	size_t rest = length - sizeof(uint64_t);
	uint32_t failed = 0;
	fault_piece piece[4];
	uint64_t word;

	if (unlikely((uintptr_t)(to + length) & 7 || (rest && rest < 16) || rest > 64))
		return fault_copy_any(to, from, length);
	if (unlikely(!fault_unblocked))
		fault_unblock();
	word = fault_get_word((const char *)from + rest, &failed);
	if (rest) {
		for (int i = 0; i < 4; i++)
			piece[i] = fault_get((const char *)from + fault_piece_at(rest, i), &failed);
		if (unlikely(failed))
			return false;
		for (int i = 0; i < 4; i++)
			fault_put(to + fault_piece_at(rest, i), piece[i], &failed);
	}
	if (unlikely(failed))
		return false;
	fault_put_word(to + rest, word, &failed);
	return likely(!failed);
}
#else
static inline bool fault_copy(char *to, const void *from, size_t length)
{
	return fault_copy_any(to, from, length);
}

static inline bool fault_load(char *to, const void *from, size_t length)
{
	return fault_copy_any(to, from, length);
}

static inline bool fault_store(char *to, const void *from, size_t length)
{
	return fault_copy_any(to, from, length);
}
#endif

#endif
