/* SPDX-License-Identifier: BSD-2-Clause */
/* Scatter/gather lists: from local keys to bytes. Offsets count from the first byte of the list. Any thread may
 * call. */
#ifndef UROCE_SGE_H
#define UROCE_SGE_H

#include "object/mr.h"

/* The rest of a list: `left` bytes, from byte `offset` of the `count` SGEs at `sge` on. */
struct sge_rest {
	const struct ibv_sge *sge;
	uint32_t count;
	uint32_t left;
	uint64_t offset;
};

/* Returns the next bytes as an SGE of their own, a part of one SGE of the list. False: none are left. */
static inline bool sge_next(struct sge_rest *rest, struct ibv_sge *part)
{
	if (!rest->left)
		return false;
	for (; rest->count; rest->sge++, rest->count--) {
		if (rest->offset >= rest->sge->length) {
			rest->offset -= rest->sge->length;
			continue;
		}
		part->addr = rest->sge->addr + rest->offset;
		part->length = min_of(rest->left, (uint32_t)(rest->sge->length - rest->offset));
		part->lkey = rest->sge->lkey;
		rest->left -= part->length;
		rest->offset += part->length;
		return true;
	}
	return false;
}

/* Returns `mr`, which has a hazard pointer, if `length` bytes from the address of the SGE are in it, in this domain,
 * with these rights. Else puts it and returns NULL. */
static inline struct mr *sge_within(struct mr *mr, const struct pd *pd, const struct ibv_sge *sge, uint32_t length,
				    unsigned access)
{
	if (likely(mr && mr_allows(mr, pd, sge->addr, length, access)))
		return mr;
	if (mr)
		mr_put(mr);
	return NULL;
}

/* The region of an SGE, checked as above; else NULL. The caller calls mr_put(). */
static inline struct mr *sge_region(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, unsigned access)
{
	return sge_within(mr_get_local(hca, sge->lkey), pd, sge, sge->length, access);
}

/* The same for the first `length` bytes of an SGE, with a cache of the last lookup. */
static inline struct mr *sge_region_again(struct hca *hca, struct mr_last *last, const struct pd *pd,
					  const struct ibv_sge *sge, uint32_t length, unsigned access)
{
	return sge_within(mr_get_local_again(hca, last, sge->lkey), pd, sge, length, access);
}

/* Copies `length` bytes to the beginning of an SGE, which has at least that length. False: it is not writable memory of
 * the domain. */
static inline bool sge_store(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, const void *bytes,
			     uint32_t length)
{
	struct mr *mr = mr_get_local(hca, sge->lkey);
	bool ok;

	if (unlikely(!mr))
		return false;
	ok = mr_allows(mr, pd, sge->addr, length, IBV_ACCESS_LOCAL_WRITE) &&
	     mr_write(mr, mr_at(mr, sge->addr), bytes, length);
	mr_put(mr);
	return ok;
}

/* True if every SGE names memory of the domain with these rights. */
bool sge_allowed(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count, unsigned access);

/* Copies `length` bytes into the list from `offset` on. False: an SGE is not writable memory of the domain (the bytes
 * before it are written). The caller has checked that the list is long enough. */
bool sge_scatter(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count, uint64_t offset,
		 const void *bytes, uint32_t length);

#endif
