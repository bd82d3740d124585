/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues: the rings of send and receive work requests. A position in a ring counts all requests ever
 * posted, so it never repeats within 2^32 requests and names a request in traces. */
#ifndef UROCE_QUEUE_H
#define UROCE_QUEUE_H

#include <errno.h>
#include <infiniband/verbs.h>

#include "base/base.h"
#include "base/lock.h"
#include "base/psn.h"
#include "base/trace.h"
#include "object/flow.h"
#include "object/mr.h"
#include "object/pd.h"

/* The life of a send work request. */
enum wqe_state {
	WQE_FREE,
	WQE_POSTED,	/* built by post_send */
	WQE_PROCESSING, /* the requester has given it PSNs */
	WQE_COMPLETED,
	WQE_ERROR,
};

struct wqe {
	uint64_t wr_id;
	uint32_t length;  /* bytes of the whole message */
	uint32_t packets; /* PSNs that it takes; 0: it is executed here */
	psn_t psn;	  /* the first of them; from WQE_PROCESSING on */
	uint32_t imm;	  /* immediate data as on the wire, or the rkey to invalidate */
	uint8_t opcode;	  /* enum ibv_wr_opcode */
	uint8_t flags;	  /* enum ibv_send_flags */
	uint8_t state;	  /* enum wqe_state */
	uint8_t num_sge;  /* 0 if IBV_SEND_INLINE: then the data stand where the SGEs would */
	uint32_t rkey;
	uint64_t remote_addr;
	union {
		struct {
			uint64_t compare_add, swap;
		};
		struct {
			uint32_t remote_qpn, remote_qkey; /* UD, as is wqe_path() */
		};
		bool in_pieces; /* a WRITE: each packet is a WRITE of its own; from WQE_PROCESSING on */
		struct {	/* a bind; with rkey, remote_addr, and the access flags in imm */
			uint64_t bind_length;
			uint32_t bind_window, bind_lkey;
		};
	};
	uint32_t remote_srqn; /* XRC */
	uint8_t status;	      /* enum ibv_wc_status: in WQE_ERROR, what it will complete with */
	bool by_reference;    /* packets say where the payload lies; from WQE_PROCESSING on */
	struct ibv_sge sge[];
};
static_assert(sizeof(struct wqe) == 64, "the fixed part of a WQE is one cache line");

/* The owner of the QP's lock guards all but `reclaimed`. */
struct sq {
	char *ring;
	struct pd *from; /* of the ring: for buffer_free() */
	uint32_t stride; /* bytes per WQE: the fixed part, SGEs or inline data, what the transport adds */
	uint32_t mask;	 /* ring size less 1 */
	uint32_t depth;	 /* work requests that may be outstanding: cap.max_send_wr */
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t head;		    /* the oldest that is not complete */
	uint32_t tail;		    /* where the next post goes */
	_Atomic uint32_t reclaimed; /* polled up to here: as on hardware, polling its CQE frees a slot and all before */
	struct mr_last last;
};
static_assert(sizeof(struct sq) == CACHE_LINE, "what each message looks at");

struct rwqe {
	uint64_t wr_id;
	uint32_t length; /* room for bytes in all SGEs */
	uint32_t num_sge;
	struct ibv_sge sge[];
};

/* Receives: of one QP, or shared by many (object/srq.h). */
struct rq {
	struct lock
		lock; /* of an SRQ: guards all but `reclaimed`; nests inside qp->lock. A QP's own needs none but that */
	uint32_t stride;
	char *ring;
	uint32_t mask, depth, max_sge;
	uint32_t head; /* the next to be used by an arriving message */
	uint32_t tail; /* where the next post goes */
	_Atomic uint32_t reclaimed;
	struct mr_last last;  /* of a QP's own */
	struct pd *from, *pd; /* of the ring: for buffer_free(), and for another one */
	enum buffer_kind kind;
	uint32_t granted;	    /* receives in all promises */
	struct list credits;	    /* of UC and UD: to all who asked, whatever QP of this queue they send to */
	uint64_t period, period_at; /* a time that passes while somebody asks: engine/flow.c */
};

static inline struct wqe *sq_at(const struct sq *sq, uint32_t position)
{
	return (struct wqe *)(sq->ring + (size_t)(position & sq->mask) * sq->stride);
}

static inline struct rwqe *rq_at(const struct rq *rq, uint32_t position)
{
	return (struct rwqe *)(rq->ring + (size_t)(position & rq->mask) * rq->stride);
}

/* 0 or -ENOMEM; limits were checked by the caller. `after`: bytes at the end of each WQE for its transport.
 */
int sq_init(struct sq *sq, struct pd *pd, uint32_t depth, uint32_t max_sge, uint32_t max_inline, uint32_t after);
void sq_fini(struct sq *sq);
int rq_init(struct rq *rq, struct pd *pd, enum buffer_kind kind, uint32_t depth, uint32_t max_sge);
void rq_fini(struct rq *rq);

/* These are called with the lock of the SRQ held, or that of the QP. */

/* Takes the oldest receive into *out (room for max_sge SGEs) and its position into *position. `credit`: to whom it
 * goes, or NULL. False: none. */
bool rq_take(struct rq *rq, struct credit *credit, struct rwqe *out, uint32_t *position);

/* So many receives are for this sender, in place of what it was granted before. */
void rq_grant(struct rq *rq, struct credit *credit, uint32_t receives);

/* A receive is used by this sender: one less that it has been granted. NULL: it has not been granted any. */
static inline void rq_use_credit(struct rq *rq, struct credit *credit)
{
	if (!credit || !credit->receives)
		return;
	if (unlikely(credit->receives == 1)) {
		rq_grant(rq, credit, 0);
		return;
	}
	credit->receives--;
	credit->period = rq->period;
	rq->granted--;
}

/* The SGEs of one; returns how long they are together. */
uint64_t rq_fill(struct rwqe *r, const struct ibv_recv_wr *wr);

/* One of one piece. False: there is no room for it. */
static inline bool rq_post_piece(struct rq *rq, const struct ibv_recv_wr *wr)
{
	struct rwqe *r = rq_at(rq, rq->tail);

	/* relaxed: see cq.c reclaim() */
	if (unlikely(rq->tail - atomic_load_explicit(&rq->reclaimed, memory_order_relaxed) >= rq->depth ||
		     !rq->max_sge))
		return false;
	r->wr_id = wr->wr_id;
	r->num_sge = 1;
	r->sge[0] = wr->sg_list[0];
	r->length = wr->sg_list[0].length;
	rq->tail++;
	return true;
}

static inline int rq_post_one(struct rq *rq, uint32_t qpn, const struct ibv_recv_wr *wr)
{
	/* relaxed: see cq.c reclaim() */
	uint32_t reclaimed = atomic_load_explicit(&rq->reclaimed, memory_order_relaxed), tail = rq->tail;
	struct rwqe *r = rq_at(rq, tail);

	if (unlikely(tail - reclaimed >= rq->depth))
		return ENOMEM;
	if (unlikely((uint32_t)wr->num_sge > rq->max_sge))
		return EINVAL;
	r->wr_id = wr->wr_id;
	r->num_sge = (uint32_t)wr->num_sge;
	if (likely(wr->num_sge == 1)) {
		r->sge[0] = wr->sg_list[0];
		r->length = wr->sg_list[0].length;
	} else {
		r->length = (uint32_t)min_of(rq_fill(r, wr), (uint64_t)UINT32_MAX);
	}
	trace(post_recv, qpn, tail, wr->wr_id, 0, r->length, 0);
	rq->tail = tail + 1;
	return 0;
}

/* Appends receives. 0, or a positive errno with *bad at the first that was not taken: ENOMEM (queue full),
 * EINVAL (too many SGEs). */
static inline __attribute__((always_inline)) int rq_post(struct rq *rq, uint32_t qpn, struct ibv_recv_wr *wr,
							 struct ibv_recv_wr **bad)
{
	int err = 0;

	for (; wr && !err; wr = wr->next) {
		err = rq_post_one(rq, qpn, wr);
		if (err)
			*bad = wr;
	}
	return err;
}

/* 0, -EINVAL (fewer than are posted) or -ENOMEM. Only where taken slots are free: not for a QP's own. */
int rq_resize(struct rq *rq, uint32_t depth);

#endif
