/* SPDX-License-Identifier: BSD-2-Clause */
/* Accesses that may fault. Memory may have been unmapped or protected since it was registered. Adapters pin pages, so
 * with an adapter the access succeeds; here it would raise a signal and end the program. So such accesses are made in a
 * try: it costs some stores, and no system call. (guarded.h asks the kernel to copy: for memory that is expected to
 * come and go.)
 *
 * The handlers of SIGSEGV and SIGBUS pass on every signal that is not raised in a try. Any thread may call all of
 * this. */
#ifndef UROCE_FAULT_H
#define UROCE_FAULT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"
#include "base/tsan.h"

/* Installs the handlers, again if the program has installed its own meanwhile; those are called for faults that are not
 * in a try. Call it when memory is registered. */
void fault_arm(void);

/* Asked first of a fault, in the handler: whether its instruction can be repeated. Set once; NULL: nobody. */
extern bool (*fault_repeats)(const siginfo_t *info, const void *context);

/* True if a SIGBUS would reach the handler of uroce now: the program may have installed its own. (An access to a
 * truncated file raises SIGBUS.) Takes a system call. */
bool fault_is_armed(void);

/* Calls access(arg), which takes no lock and can be abandoned at any point. False: it has faulted, and was abandoned
 * there. */
bool fault_try(void (*access)(void *arg), void *arg);

/* copy_in_order(). False: it has faulted; some bytes may have been copied. Small copies use instructions that stand in
 * a table, each with the address at which the thread continues after a fault: where the compiler supports that, a try
 * costs nothing. */
static inline bool fault_copy(char *to, const void *from, size_t length);
/* fault_load() copies in any order to memory that is present; fault_store() copies in any order from memory that is
 * present. */
static inline bool fault_load(char *to, const void *from, size_t length);
static inline bool fault_store(char *to, const void *from, size_t length);

/* fault_copy() of any length. */
bool fault_copy_any(char *to, const void *from, size_t length);

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(UNDER_TSAN)
typedef float fault_piece __attribute__((vector_size(16)));

/* An instruction of the table. If it faults, the handler sets its first operand, in rax: on_fault() */
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

/* 16 to 64 bytes are four pieces that overlap; this is the offset of piece i. */
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

/* The word at the end of the buffer is stored last, and whole. All is loaded before anything is stored, as the two may
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
