/* A memory region and its key. lkey and rkey are one number: 24 bits that name the region, scrambled by random
 * numbers of the process, and a random tag of 8 bits. A region may be looked up by any thread at any time, by
 * number; mr_get() keeps it alive until mr_put(). mr_deregister() waits for those who are inside, so nobody
 * touches the memory after it returns.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_MR_H
#define UROCE_MR_H

#include <infiniband/verbs.h>

#include "object/hca.h"
#include "object/pd.h"

struct mr {
	struct ibv_mr base; /* what the application holds: first */
	struct hca *hca;
	struct pd *pd;
	uint64_t iova; /* the address by which work requests and peers name its first byte */
	uint64_t length;
	char *memory;		/* that byte, in this process */
	unsigned access;	/* enum ibv_access_flags */
	bool invalidatable;	/* SEND with invalidate may kill its key (memory windows; not what ibv_reg_mr makes) */
	uint32_t index;		/* in hca->mrs */
	_Atomic uint32_t key;	/* 0: dead */
	_Atomic uint32_t users; /* who is inside: mr_get() less mr_put() */
};

/* Makes a region of [address, address + length); the memory is not looked at. NULL and errno ENOMEM when there
 * is no room. Fills base.lkey and base.rkey, addr, length, pd and context (from pd). */
struct mr *mr_register(struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access);

/* Changes a live region in place; what is inside finishes first. A region of other memory gets another key; one that
 * only changes its rights or domain keeps the key that peers know, as with adapters. */
void mr_reregister(struct mr *mr, struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access);

/* After this, the key is unknown and nobody is inside. The memory of the struct belongs to the pool again. */
void mr_deregister(struct mr *mr);

/* What a SEND with invalidate does: the key dies if it names something invalidatable of this domain. False: it
 * does not. Does not wait for those who are inside (IBTA: the invalidation is ordered by the message only). */
bool mr_invalidate(struct hca *hca, const struct pd *pd, uint32_t key);

/* The live region with that key, or NULL. */
struct mr *mr_get(struct hca *hca, uint32_t key);
void mr_put(struct mr *mr);

/* Whether [iova, iova + length) lies inside the region, in this domain, with all of these rights. */
bool mr_allows(const struct mr *mr, const struct pd *pd, uint64_t iova, uint64_t length, unsigned access);

static inline char *mr_at(const struct mr *mr, uint64_t iova)
{
	return mr->memory + (iova - mr->iova);
}

#endif
