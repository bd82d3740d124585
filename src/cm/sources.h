/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses that requests come from: which have proven that they receive what is sent to them, and how many half-open
 * connections each has. A source address is easily forged; an answer that only its owner can have read is not.
 *
 * All of it is guarded by the machine's lock. */
#ifndef UROCE_SOURCES_H
#define UROCE_SOURCES_H

#include <infiniband/verbs.h>

#include "base/base.h"
#include "base/siphash.h"

enum {
	SOURCES_PROVEN = 1024,	/* so many are remembered, about */
	SOURCES_COUNTED = 4096, /* so many are counted apart, about */
};

#define SOURCE_TRUST (60 * SEC) /* that a proof lasts */

struct sources {
	struct siphash_key key; /* where an address has its place, which nobody else can choose; and of proofs */
	struct {
		union ibv_gid gid;
		uint64_t until; /* ns; 0: free */
	} proven[SOURCES_PROVEN];
	uint16_t half_open[SOURCES_COUNTED];
};

void sources_init(struct sources *s, const struct siphash_key *key);

void sources_prove(struct sources *s, const union ibv_gid *gid, uint64_t now);
bool sources_is_proven(const struct sources *s, const union ibv_gid *gid, uint64_t now);

/* The number of half-open connections of that address, or of a few whose places are the same. */
uint16_t *sources_half_open(struct sources *s, const union ibv_gid *gid);

/* What proves that an address receives, if it comes back from there with this id: by `now` at least, and a minute
 * later. Not 0. */
uint64_t sources_cookie(const struct sources *s, const union ibv_gid *gid, uint32_t id, uint64_t now);
bool sources_check_cookie(const struct sources *s, const union ibv_gid *gid, uint32_t id, uint64_t cookie,
			  uint64_t now);

#endif
