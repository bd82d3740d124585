/* SPDX-License-Identifier: BSD-2-Clause */
/* A memory region and its key. lkey and rkey are one number: 24 bits that name the region, scrambled by random
 * numbers of the process, and a random tag of 8 bits. A region may be looked up by any thread at any time, by
 * number; mr_get() keeps it alive until the same thread's mr_put(). mr_deregister() waits for those who are inside
 * (base/hazard.h), so nobody touches the memory after it returns. */
#ifndef UROCE_MR_H
#define UROCE_MR_H

#include <infiniband/verbs.h>

#include "base/hazard.h"
#include "memory/fault.h"
#include "object/hca.h"
#include "object/pd.h"

/* Besides enum ibv_access_flags: local keys reach it. Of regions, not of windows. */
#define MR_LOCAL (1u << 31)
/* What cannot be touched directly: mr_is_indirect(). Besides IBV_ACCESS_ON_DEMAND: */
#define MR_NULL	  (1u << 30) /* there is none: reads as zeros, and what is written is lost */
#define MR_DMABUF (1u << 19) /* another device's */

struct mr {
	union { /* what the application holds: first */
		struct ibv_mr base;
		struct ibv_mw window; /* see window.h */
	};
	struct hca *hca;
	uint32_t index;	  /* in hca->mrs */
	uint32_t windows; /* a region: windows that are bound to it; guarded by hca->window_lock */

	/* what an access looks at: one cache line */
	struct pd *pd;
	uint64_t iova; /* the address by which work requests and peers name its first byte */
	uint64_t length;
	char *memory;	      /* that byte, in this process */
	unsigned access;      /* enum ibv_access_flags, MR_LOCAL */
	_Atomic uint32_t key; /* 0: dead */
	uint8_t tag;	      /* the low eight bits of its last key */
	uint8_t type;	      /* enum ibv_mw_type; 0: a region. Changes under hca->window_lock */
	uint8_t file;	      /* a region: struct exported's; 0: none. For show.c */
	union {
		struct mr *region; /* a window: what it is bound to, NULL: nothing; changes under hca->window_lock */
		_Atomic uint32_t *backing; /* a region of device memory: who counts it; else NULL. For verbs/ */
	};
	union {
		uint64_t qp_serial; /* a window of type 2: the QP that bound it */
		int dmabuf;	    /* a region with MR_DMABUF: its descriptor */
	};
};
static_assert(offsetof(struct mr, pd) == CACHE_LINE && sizeof(struct mr) <= 2 * CACHE_LINE,
	      "the fields above stand as the comment says");

/* Makes a region of [address, address + length); the memory is not looked at. NULL and errno ENOMEM when there
 * is no room. Fills base.lkey and base.rkey, addr, length, pd and context (from pd). */
struct mr *mr_register(struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access);

/* Changes a live region in place; what is inside finishes first. A region of other memory gets another key; one that
 * only changes its rights or domain keeps the key that peers know, as with adapters. 0, or -EBUSY: a window is bound.
 */
int mr_reregister(struct mr *mr, struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access);

/* After this, the key is unknown and nobody is inside. The memory of the struct belongs to the pool again. 0, or
 * -EBUSY: a window is bound to it. */
int mr_deregister(struct mr *mr);

/* For regions of our own that no window is bound to, between two that use them: nobody gets in. What local peers have
 * begun may still be going on: show_settle(). Afterwards it is known by another key. It may be deregistered in between.
 */
void mr_suspend(struct mr *mr);
void mr_resume(struct mr *mr);

/* For window.c. One more or less of those that `count` counts, up to `limit`; NULL and errno ENOMEM. */
struct mr *mr_alloc(struct hca *hca, _Atomic uint32_t *count, uint32_t limit);
void mr_free(struct mr *mr, _Atomic uint32_t *count);
uint32_t mr_key(const struct mr *mr, uint8_t tag); /* never 0 */
/* Lets in who knows that key. */
void mr_open(struct mr *mr, uint32_t key);
/* Nobody new comes in, and whoever is inside leaves. */
void mr_close(struct mr *mr);

/* A region that was live at some time, if it has that key now. */
static inline struct mr *mr_hazard_get(struct mr *mr, uint32_t key)
{
	if (unlikely(!hazard_take(mr)))
		return NULL;
	/* after the hold, see hazard.h; pairs with mr_close(), and with mr_open() */
	if (likely(atomic_load_explicit(&mr->key, memory_order_seq_cst) == key))
		return mr;
	hazard_drop(mr);
	return NULL;
}

/* The live region with that key, or NULL. */
static inline struct mr *mr_get(struct hca *hca, uint32_t key)
{
	struct mr *mr = pool_at(&hca->mrs, key_index(&hca->keys, key));

	return likely(mr && key) ? mr_hazard_get(mr, key) : NULL;
}

/* Which one somebody has found last, as most often he asks for that again. Whether it still is that is found out each
 * time. */
struct mr_last {
	struct mr *mr;
	uint32_t key; /* 0: none */
};

static inline struct mr *mr_get_again(struct hca *hca, struct mr_last *last, uint32_t key)
{
	struct mr *mr;

	if (likely(last->key == key && key))
		return mr_hazard_get(last->mr, key);
	mr = mr_get(hca, key);
	if (likely(mr))
		*last = (struct mr_last){mr, key};
	return mr;
}

static inline void mr_put(struct mr *mr)
{
	hazard_drop(mr);
}

/* Whether [iova, iova + length) lies inside the region, in this domain, with all of these rights. */
static inline bool mr_allows(const struct mr *mr, const struct pd *pd, uint64_t iova, uint64_t length, unsigned access)
{
	return mr->pd == pd && (mr->access & access) == access && iova >= mr->iova && length <= mr->length &&
	       iova - mr->iova <= mr->length - length;
}

static inline char *mr_at(const struct mr *mr, uint64_t iova)
{
	/* by numbers: a region of the whole address space begins at 0, which is no pointer to count from */
	return (char *)((uintptr_t)mr->memory + (uintptr_t)(iova - mr->iova));
}

/* Whether nobody may touch the memory but by what follows: paged on demand, it need not be there; a device's, it needs
 * care; a null region has none. (Memory paged on demand may also be left to the kernel in other ways, which then
 * reports EFAULT.) A window says nothing of it: ask its region. */
static inline bool mr_is_indirect(const struct mr *mr)
{
	return mr->access & (IBV_ACCESS_ON_DEMAND | MR_NULL | MR_DMABUF);
}

/* access.c */
bool mr_write_indirect(const struct mr *mr, char *at, const void *from, size_t length);
bool mr_read_indirect(const struct mr *mr, void *to, const char *at, size_t length);
bool mr_begin_indirect(const struct mr *mr, char *at);
void mr_end_indirect(const struct mr *mr);

/* Bytes into a region at `at`, the last of them last. False: there is no such memory, or it cannot be written. */
static inline bool mr_write(const struct mr *mr, char *at, const void *from, size_t length)
{
	if (unlikely(mr_is_indirect(mr)))
		return mr_write_indirect(mr, at, from, length);
	return fault_copy(at, from, length);
}

/* Around an atomic on 8 bytes at `at`. False: they are not there, or cannot be written. */
static inline bool mr_begin(const struct mr *mr, char *at)
{
	return likely(!mr_is_indirect(mr)) || mr_begin_indirect(mr, at);
}

static inline void mr_end(const struct mr *mr)
{
	if (unlikely(mr_is_indirect(mr)))
		mr_end_indirect(mr);
}

#endif
