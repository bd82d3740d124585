/* SPDX-License-Identifier: BSD-2-Clause */
/* How bytes get soonest to another processor, which reads them from memory that both use again and again.
 *
 * To store into a line that the other one has read is to take it away from there first. Between processors that share a
 * cache that is soon done; between others it takes longer than all the rest, ten times and more. Stores past the caches
 * take nothing away: they go to memory, and who reads fetches from there, which takes as long between any two
 * processors. Nobody says which two these are, and those of virtual machines move: so who copies looks, now and then,
 * how long it takes.
 *
 * One for each stream of copies; whoever copies guards it. All zeros: nothing is known yet. */
#ifndef UROCE_PACE_H
#define UROCE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct pace {
	bool past;     /* the caches is the way */
	uint8_t slow;  /* copies in a row that took too long */
	uint16_t left; /* copies until the next one that is looked at */
};

/* `length` bytes, all of those buffers. May be called in a fault_try(). */
void pace_copy(struct pace *p, char *to, const struct iovec *from, unsigned count, size_t length);

/* A copy through the caches has taken so many ns. For pace_copy(), and tests. */
void pace_judge(struct pace *p, size_t length, uint64_t ns);

#endif
