/* SPDX-License-Identifier: BSD-2-Clause */
/* Source addresses of requests: which are proven to receive what is sent to them, and the half-open connections of
 * each. A source address is easily forged; the answer to a secret sent to it is not.
 *
 * Guarded by the machine's lock. */
#ifndef UROCE_SOURCES_H
#define UROCE_SOURCES_H

#include <infiniband/verbs.h>

#include "base/base.h"
#include "base/siphash.h"
#include "cm/tuned.h"

struct sources {
	struct siphash_key key; /* for cookies, and for table indexes that a peer cannot choose */
	struct {
		union ibv_gid gid;
		uint64_t until; /* ns; 0: free */
	} proven[SOURCES_PROVEN];
	uint16_t half_open[SOURCES_COUNTED];
};

void sources_init(struct sources *s, const struct siphash_key *key);

void sources_prove(struct sources *s, const union ibv_gid *gid, uint64_t now);
bool sources_is_proven(const struct sources *s, const union ibv_gid *gid, uint64_t now);

/* Counter of half-open connections of this address. A few addresses with the same table index share it. */
uint16_t *sources_half_open(struct sources *s, const union ibv_gid *gid);

/* Cookie for an address and an id. The address is proven if the cookie comes back from there with this id. Valid at
 * `now` and for at least 1 min. Never 0. */
uint64_t sources_cookie(const struct sources *s, const union ibv_gid *gid, uint32_t id, uint64_t now);
bool sources_check_cookie(const struct sources *s, const union ibv_gid *gid, uint32_t id, uint64_t cookie,
			  uint64_t now);

#endif
