/* SPDX-License-Identifier: BSD-2-Clause */
/* A memory region and its keys. 24 bits of a key name the region, scrambled by random numbers of the process, and 8
 * bits are a random tag. lkey and rkey are one number, or differ in a bit (UROCE_KEYS). Any thread may look up a region
 * by key at any time; mr_get() keeps it alive until mr_put() of the same thread. mr_deregister() waits for all users
 * (base/hazard.h), so the memory is not accessed after it returns. */
#ifndef UROCE_MR_H
#define UROCE_MR_H

#include <infiniband/verbs.h>

#include "base/hazard.h"
#include "memory/fault.h"
#include "memory/kind.h"
#include "object/hca.h"
#include "object/pd.h"

/* Rights of peers. */
#define MR_REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct mr {
	union { /* the application's object: first */
		struct ibv_mr base;
		struct ibv_mw window; /* see window.h */
	};
	uint32_t index;	  /* index in hca->mrs */
	uint32_t windows; /* region: number of windows bound to it. Guarded by hca->window_lock */
	uint32_t number;  /* region: serial number, from 1 */

	/* Fields used for each access: one cache line. */
	_Alignas(CACHE_LINE) struct pd *pd;
	uint64_t iova; /* address of the first byte in work requests, local and remote */
	uint64_t length;
	char *memory;	       /* address of that byte in this process */
	unsigned access;       /* enum ibv_access_flags */
	_Atomic uint32_t rkey; /* 0: dead */
	_Atomic uint32_t lkey; /* 0: dead, or a window */
	uint8_t tag;	       /* low eight bits of the last rkey */
	uint8_t type;	       /* enum ibv_mw_type; 0: a region. Changes under hca->window_lock */
	uint8_t file;	       /* region: number in struct exported; 0: none */
	uint8_t kind;	       /* region: enum memory_kind */
	union {
		struct mr *region;	   /* window: its region; NULL: unbound. Changes under hca->window_lock */
		_Atomic uint32_t *backing; /* region of device memory: its user count; else NULL. For verbs/ */
	};
	union {
		uint64_t qp_serial;	    /* window of type 2: serial number of the QP that bound it */
		union memory_handle handle; /* region: handle of its memory */
	};
};
static_assert(offsetof(struct mr, pd) == CACHE_LINE && sizeof(struct mr) == 2 * CACHE_LINE,
	      "the fields above stand as the comment says");

/* Creates a region of [address, address + length) without accessing the memory. NULL and errno ENOMEM if there is no
 * room. Fills base.lkey and base.rkey, addr, length, pd and context (from pd). */
struct mr *mr_register(struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access);
/* mr_register() for another kind of memory than the default, which is: */
static inline enum memory_kind mr_kind_for(unsigned access)
{
	return access & IBV_ACCESS_ON_DEMAND ? MEMORY_PAGED : MEMORY_PLAIN;
}
struct mr *mr_register_kind(struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access,
			    enum memory_kind kind, union memory_handle handle);

/* Changes a live region in place, after waiting for its users. A region of other memory gets a new key; if only rights
 * or domain change, the region keeps the key that peers know, as with adapters. 0, or -EBUSY: a window is bound. */
int mr_reregister(struct mr *mr, struct pd *pd, void *address, uint64_t length, uint64_t iova, unsigned access);

/* Deregisters a region: the key is unknown, no user is left, and the struct belongs to the pool again. 0, or -EBUSY: a
 * window is bound to it. */
int mr_deregister(struct mr *mr);

/* Hides the region with this lkey or rkey from look-ups. It is deregistered as usual. Does not wait, so an access that
 * has begun may go on. */
void mr_revoke(struct hca *hca, uint32_t key);

/* Suspends a region of uroce itself, without windows, between two uses: no access begins until mr_resume(), which gives
 * it a new key. Accesses of local peers that have begun may continue: show_settle(). A suspended region may be
 * deregistered. */
void mr_suspend(struct mr *mr);
void mr_resume(struct mr *mr);

/* A key that gives access no more, what it gave access to, why, and when it ended. The last MR_GONE_KEPT are
 * remembered. */
enum { MR_GONE_KEPT = 256 };
enum gone_how { GONE_DEREGISTERED, GONE_REREGISTERED, GONE_INVALIDATED, GONE_REBOUND, GONE_FREED };
struct mr_gone {
	const struct hca *hca;
	uint32_t rkey, next; /* next: the rkey that followed, of GONE_REREGISTERED */
	uint64_t iova, length, at;
	enum gone_how how;
};
/* Remembers the rkey of a region or a window that is about to end. */
void mr_note_gone(const struct mr *mr, uint32_t rkey, enum gone_how how, uint32_t next);
/* Finds what had this lkey or rkey. False: nothing is known. */
bool mr_find_gone(const struct hca *hca, uint32_t key, struct mr_gone *found);

/* For window.c: allocates or frees a struct of that domain that `count` counts, up to `limit`; NULL and errno ENOMEM.
 */
struct mr *mr_alloc(struct pd *pd, _Atomic uint32_t *count, uint32_t limit);
void mr_free(struct mr *mr, _Atomic uint32_t *count);
uint32_t mr_key(const struct mr *mr, uint8_t tag); /* an rkey, never 0 */
/* Opens the region or window for users of its keys; lkey 0: a window. */
void mr_open(struct mr *mr, uint32_t lkey, uint32_t rkey);
/* Closes the region to new users, then waits until the present ones have left. */
void mr_close(struct mr *mr);

/* Takes a hazard pointer to a region that may have been closed, if `has`, its lkey or rkey, is that key now; else
 * NULL. */
static inline struct mr *mr_hazard_get(struct mr *mr, const _Atomic uint32_t *has, uint32_t key)
{
	if (unlikely(!hazard_take(mr)))
		return NULL;
	/* after taking the hazard pointer, see hazard.h; pairs with mr_close() and mr_open() */
	if (likely(atomic_load_explicit(has, memory_order_seq_cst) == key))
		return mr;
	hazard_drop(mr);
	return NULL;
}

/* The live region or window with that rkey, or NULL. */
static inline struct mr *mr_get(struct hca *hca, uint32_t rkey)
{
	struct mr *mr = pool_at(&hca->mrs, key_index(&hca->keys, rkey));

	return likely(mr && rkey) ? mr_hazard_get(mr, &mr->rkey, rkey) : NULL;
}

/* The live region with that lkey, or NULL. */
static inline struct mr *mr_get_local(struct hca *hca, uint32_t lkey)
{
	struct mr *mr = pool_at(&hca->mrs, key_index(&hca->keys, lkey));

	return likely(mr && lkey) ? mr_hazard_get(mr, &mr->lkey, lkey) : NULL;
}

/* Cache of the last lookup, as most lookups repeat it. Validity is checked each time. */
struct mr_last {
	struct mr *mr;
	uint32_t lkey; /* of the look-up; 0: none */
};

static inline struct mr *mr_get_local_again(struct hca *hca, struct mr_last *last, uint32_t lkey)
{
	struct mr *mr;

	if (likely(last->lkey == lkey && lkey))
		return mr_hazard_get(last->mr, &last->mr->lkey, lkey);
	mr = mr_get_local(hca, lkey);
	if (likely(mr))
		*last = (struct mr_last){mr, lkey};
	return mr;
}

static inline void mr_put(struct mr *mr)
{
	hazard_drop(mr);
}

/* True if [iova, iova + length) is inside the region, in this domain, with all of these rights. */
static inline bool mr_allows(const struct mr *mr, const struct pd *pd, uint64_t iova, uint64_t length, unsigned access)
{
	/* an address before the region is one far behind it */
	return mr->pd == pd && (mr->access & access) == access && length <= mr->length &&
	       iova - mr->iova <= mr->length - length;
}

static inline char *mr_at(const struct mr *mr, uint64_t iova)
{
	/* computed as integers: a region of the whole address space begins at 0, and arithmetic on a null pointer is
	 * undefined */
	return (char *)((uintptr_t)mr->memory + (uintptr_t)(iova - mr->iova));
}

/* True if the memory may be accessed only by the operations of its kind. (Memory paged on demand may also be left to
 * the kernel in other ways, which then reports EFAULT.) Not for a window: ask its region. */
static inline bool mr_is_indirect(const struct mr *mr)
{
	return mr->kind != MEMORY_PLAIN;
}

/* Copies bytes into a region at `at`; the last bytes are stored last. False: the memory is not present or not
 * writable. */
static inline bool mr_write(const struct mr *mr, char *at, const void *from, size_t length)
{
	if (unlikely(mr_is_indirect(mr)))
		return memory_ops[mr->kind].write(mr->handle, at, from, length);
	return fault_copy(at, from, length);
}

static inline bool mr_atomic(const struct mr *mr, struct memory_atomic *a)
{
	return likely(!mr_is_indirect(mr)) ? memory_atomic_plain(a) : memory_ops[mr->kind].atomic(mr->handle, a);
}

#endif
