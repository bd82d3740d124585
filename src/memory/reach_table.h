/* SPDX-License-Identifier: BSD-2-Clause */
/* What reach.c and delivery.c share: the table of a local peer, and how an access to it begins. */
#ifndef UROCE_MEMORY_REACH_TABLE_H
#define UROCE_MEMORY_REACH_TABLE_H

#include <string.h>

#include "memory/import.h"
#include "memory/inside.h"
#include "memory/share.h"
#include "memory/shareable.h"

/* One extent of the local peer's arena, mapped here from its beginning. A view only grows: `length` is stored after
 * `at`. */
struct view {
	_Atomic(char *) at;
	_Atomic uint64_t length;
};

#define VIEW_CHUNK 1024u

#define NOBODY UINT64_MAX

struct reach {
	struct share_table *table;
	struct share_visitor *hazards; /* the hazard counters of this process, in the table */
	struct share *own;
	_Atomic uint64_t identity; /* of this process, for the check of `admitted`; NOBODY: the local peer is dead.
				      Relaxed: a stale value does no harm */
	uint64_t its_identity;
	struct key_code code;
	bool self;
	bool fenced; /* an access needs a fence, as membarrier() does not order it */
	bool process_vm;
	uint16_t slot;
	pid_t pid;
	int arena;
	struct lock lock; /* guards creating views */
	_Atomic(struct view *) view[EXTENTS / VIEW_CHUNK];
	struct iovec *old GUARDED_BY(&lock); /* views that were replaced by longer ones: unmapped at the end */
	uint32_t olds GUARDED_BY(&lock);
	struct importer importer;
};

/* Makes the hazard counter of this thread odd. False: it has none, is in a child of fork(), or is not admitted, or the
 * local peer has died. */
static inline bool reach_begin(struct reach *r)
{
	uint32_t hazard = hazard_number;
	_Atomic uint32_t *count;

	/* false for 0 and NO_HAZARD */
	if (unlikely(hazard - 1 >= SHARE_HAZARDS || atomic_load_explicit(&r->own->inert, memory_order_relaxed)))
		return false;
	/* acquire pairs with share_admit(): from then on the hazard counters belong to this process */
	if (unlikely(atomic_load_explicit(&r->hazards->admitted, memory_order_acquire) !=
			     atomic_load_explicit(&r->identity, memory_order_relaxed) ||
		     share_has_died(r->table)))
		return false;
	count = &r->hazards->hazard[hazard - 1].count;
	if (unlikely(r->fenced)) {
		/* sequentially consistent, with share_close_region(): either this thread sees that the key is gone, or
		 * share_settle() sees the odd counter */
		atomic_fetch_add_explicit(count, 1, memory_order_seq_cst);
	} else {
		/* only this thread writes it. The barrier of share_settle() orders it before what follows */
		atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
				      memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
	}
	return true;
}

static inline bool qp_is_open(const struct share_qp *qp, uint64_t pair, unsigned access)
{
	/* acquire pairs with share_open_qp(); sequentially consistent for accesses with a fence */
	unsigned open = atomic_load_explicit(&((struct share_qp *)qp)->open, memory_order_seq_cst);

	return (open & access) == access && (open & SHARE_QP_OPEN) && share_qp_pair(qp) == pair;
}

/* Copies the entry but for its key, as the local peer may change it. */
static inline bool copy_region(struct reach *r, uint32_t key, struct share_region *copy)
{
	uint32_t index = key_index(&r->code, key);
	const struct share_region *region;

	if (unlikely(index >= SHARE_REGIONS || !key))
		return false;
	region = &r->table->region[index];
	/* as qp_is_open(), with share_open_region() */
	if (atomic_load_explicit(&((struct share_region *)region)->key, memory_order_seq_cst) != key)
		return false;
	memcpy(&copy->access, &region->access, sizeof(*copy) - offsetof(struct share_region, access));
	__asm__ volatile("" : : : "memory"); /* nothing is read there again */
	return true;
}

static inline bool region_has(const struct share_region *region, uint64_t va, uint64_t length)
{
	return va >= region->iova && length <= region->length && va - region->iova <= region->length - length;
}

#endif
