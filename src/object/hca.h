/* SPDX-License-Identifier: BSD-2-Clause */
/* The host channel adapter: the state that all devices, contexts and threads of a process share. One per process; the
 * simulator has one per node. hca_init() makes it (object/hca_init.h). */
#ifndef UROCE_HCA_H
#define UROCE_HCA_H

#include <infiniband/verbs.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/pool.h"
#include "base/qpn.h"
#include "base/timer.h"
#include "memory/key.h"

struct cq;
struct qp;
struct share;
struct srq;

/* Limits, as ibv_query_device() reports them and as they are enforced. */
enum {
	HCA_MAX_QP = 65536,
	HCA_MAX_QP_WR = 16384,
	HCA_MAX_SGE = 32,
	HCA_MAX_INLINE = 512,
	HCA_MAX_CQ = 65536,
	HCA_MAX_CQE = 4 << 20,
	HCA_MAX_MR = 1 << 20,
	HCA_MAX_MW = 1 << 20,
	HCA_MAX_SRQ = 32768,
	HCA_MAX_SRQ_WR = 65536,
	HCA_MAX_PD = 65536,
	HCA_MAX_WQ = 4096, /* WQs; each uses a QP */
	HCA_MAX_WQ_TABLES = 1024,
	HCA_MAX_DM = 1 << 20, /* bytes of device memory */
	HCA_MAX_AH = 65536,
	HCA_MAX_RD_ATOMIC = 128,
	HCA_MAX_GROUPS = 256, /* multicast groups: each takes a descriptor */
	HCA_MAX_GROUP_QPS = 1024,
	HCA_MAX_GROUP_MEMBERS = 65536, /* sum over all groups */
	HCA_MAX_MESSAGE = 1u << 31,    /* bytes: IBTA 9.7.7 */
};

/* Callbacks of the engine for waiting threads. Called with qp->lock held, or with no lock; they take only locks
 * below RANK_QP and never call back. */
struct hca_ops {
	void (*cq_event)(struct cq *cq);			       /* an armed CQ got a matching completion */
	void (*cq_error)(struct cq *cq);			       /* a completion found the CQ full */
	void (*qp_event)(struct qp *qp, enum ibv_event_type event);    /* an affiliated asynchronous event of a QP */
	void (*srq_event)(struct srq *srq, enum ibv_event_type event); /* an affiliated asynchronous event of an SRQ */
	void (*cq_delayed)(struct cq *cq); /* the CQ's event is delayed from now on: cq_moderate() */
	void (*qp_settles)(
		struct qp *qp); /* call engine_settled() when no message can come that is done for its sender */
	/* Says what this host knows of the peer of a QP that fails as nothing answers. False: nothing. NULL: not asked
	 */
	bool (*silent_peer)(const struct qp *qp, char *text, size_t room);
};

struct hca {
	const struct hca_ops *ops;
	_Atomic bool inert; /* a child's copy after fork(). Changes of other threads at that moment may be half done, so
			       the child frees nothing of it. Relaxed: set before the child has threads */
	_Atomic bool has_gpu_memory;	    /* a region of a GPU was registered: see sq->fast_inline */
	uint16_t slot;			    /* slot of this process: base/qpn.h */
	_Atomic uint16_t slots[SLOT_PARTS]; /* all slots of this process, by part; 0: none. Relaxed: hca_add_slot() */
	_Atomic(const _Atomic uint16_t *) owners; /* table of owners by slot: hca_owner(). NULL: not known */
	struct key_code keys;			  /* random code of the keys of regions */
	struct share *share;	 /* tables that local peers see; NULL: none. Set by the caller of hca_init() */
	_Atomic uint64_t random; /* state of hca_random() */
	struct pool qps;	 /* struct qp, by the low 16 bits of the QPN, which are random */
	struct pool mrs;	 /* struct mr: regions and windows */
	_Atomic uint32_t regions, windows; /* number of regions, of windows */
	_Atomic uint32_t registered;	   /* count of regions registered ever */
	struct lock window_lock;	   /* guards binding and unbinding */
	_Atomic uint64_t serial;	   /* last serial number of a QP */
	struct pool srqs;		   /* struct srq, by SRQ number */
	struct timers timers;		   /* a timer for each QP */
	struct lock ready_lock;
	struct list ready GUARDED_BY(&ready_lock);    /* QPs that have something to send */
	_Atomic bool has_ready;			      /* the list is not empty. A hint */
	struct list settling GUARDED_BY(&ready_lock); /* QPs whose rq.settling is to end: port/settle.h */
	_Atomic bool has_settling;		      /* the list is not empty. A hint */
};

/* Counters of the engine: over all queue pairs of the process, since it started, as adapters count. Only uncommon
 * events are counted. Relaxed: nothing depends on them. */
enum hca_counter {
	HCA_DUPLICATES,	   /* duplicate requests */
	HCA_GAPS,	   /* requests ahead of the expected PSN */
	HCA_NO_RECEIVE,	   /* messages without a receive */
	HCA_RNR_NAKS,	   /* that came */
	HCA_SEQUENCE_NAKS, /* that came */
	HCA_TIMEOUTS,	   /* of the transport timer */
	HCA_RETRIES_SPENT, /* QPs that failed after HCA_TIMEOUTS */
	HCA_RNR_RETRIES_SPENT,
	HCA_COUNTERS
};
extern _Atomic uint64_t hca_counted[HCA_COUNTERS];

static inline void hca_count(enum hca_counter what)
{
	atomic_fetch_add_explicit(&hca_counted[what], 1, memory_order_relaxed);
}

static inline bool hca_is_inert(const struct hca *hca)
{
	return atomic_load_explicit(&((struct hca *)hca)->inert, memory_order_relaxed);
}

/* True if a number, of a QP or an SRQ, is of this process. */
static inline bool hca_has_number(struct hca *hca, uint32_t number)
{
	uint16_t slot = qpn_slot(number);

	/* relaxed: no peer knows a number before its slot is added */
	return atomic_load_explicit(&hca->slots[slot_part(slot)], memory_order_relaxed) == slot && slot;
}

/* The first slot of the process that has the number's slot, if known; else that slot. Relaxed: written before any
 * object has a number of the slot. */
static inline uint16_t hca_owner(struct hca *hca, uint32_t number)
{
	/* acquire pairs with learn_owners() in port/ports.c */
	const _Atomic uint16_t *owners = atomic_load_explicit(&hca->owners, memory_order_acquire);
	uint16_t slot = qpn_slot(number), owner = 0;

	if (owners)
		owner = atomic_load_explicit((_Atomic uint16_t *)&owners[slot], memory_order_relaxed) & SLOT_LAST;
	return owner ? owner : slot;
}

/* The number of a new object with that index. */
static inline uint32_t hca_number(struct hca *hca, uint32_t index)
{
	uint16_t slot = atomic_load_explicit(&hca->slots[index / SLOT_QPNS % SLOT_PARTS], memory_order_relaxed);

	return slot_number(slot, index);
}

/* Frees the pools, when no object is left. */
void hca_fini(struct hca *hca);

/* The part of the next slot that this process needs for one more QP or SRQ; -1: it needs none, or has all. */
int hca_wants_slot(struct hca *hca);
/* Gives out numbers of that slot from now on. Calls for one HCA do not overlap. */
void hca_add_slot(struct hca *hca, uint16_t slot);

/* A random number. Not cryptographic: access does not depend on it alone, since keys are checked against the region. */
uint64_t hca_random(struct hca *hca);
uint32_t hca_random_bits(void *hca);

#endif
