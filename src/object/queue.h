/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues: rings of send and receive work requests. A QP or an SRQ owns its queue. A position counts all requests
 * ever posted, so it is unique within 2^32 requests and names a request in traces. */
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

/* The states of a send work request. */
enum wqe_state {
	WQE_FREE,
	WQE_POSTED,	/* built by post_send */
	WQE_PROCESSING, /* the requester has assigned PSNs */
	WQE_COMPLETED,
	WQE_ERROR,
};

struct wqe {
	uint64_t wr_id;
	uint32_t length;  /* bytes of the whole message */
	uint32_t packets; /* PSNs; 0: executed locally */
	psn_t psn;	  /* first PSN; valid from WQE_PROCESSING on */
	uint32_t imm;	  /* immediate data as on the wire, or the rkey to invalidate */
	uint8_t opcode;	  /* enum ibv_wr_opcode */
	uint8_t flags;	  /* enum ibv_send_flags */
	uint8_t state;	  /* enum wqe_state */
	uint8_t num_sge;  /* number of SGEs; 0 with IBV_SEND_INLINE: the data are in place of the SGEs */
	uint32_t rkey;
	uint64_t remote_addr;
	union {
		struct {
			uint64_t compare_add, swap;
		};
		struct {
			uint32_t remote_qpn, remote_qkey; /* UD; see wqe_path() */
		};
		bool in_pieces; /* WRITE: each packet is a WRITE of its own; valid from WQE_PROCESSING on */
		struct {	/* bind; also uses rkey, remote_addr, and imm for access flags */
			uint64_t bind_length;
			uint32_t bind_window, bind_lkey;
		};
	};
	uint32_t remote_srqn; /* XRC */
	uint8_t status;	      /* enum ibv_wc_status: in WQE_ERROR, the status of its completion */
	bool by_reference;    /* packets refer to the payload; valid from WQE_PROCESSING on */
	bool of_gpu;	      /* the payload is memory of a GPU */
	struct ibv_sge sge[];
};
static_assert(sizeof(struct wqe) == 64, "the fixed part of a WQE is one cache line");

/* Guarded by qp->lock, except `reclaimed`. */
struct sq {
	char *ring;
	struct pd *from; /* PD that allocated the ring: for buffer_free() */
	uint32_t stride; /* bytes per WQE: the fixed part, SGEs or inline data, and an addition of the transport */
	uint32_t mask;	 /* ring size less 1 */
	uint32_t depth;	 /* work requests that may be outstanding: cap.max_send_wr */
	uint32_t max_sge;
	uint16_t max_inline;
	uint16_t fast_inline;	    /* max_inline; 0 if inline data may be memory of a GPU: for plain loads */
	uint32_t head;		    /* position of the oldest request that is not complete */
	uint32_t tail;		    /* position of the next post */
	_Atomic uint32_t reclaimed; /* position before which slots are free: those of polled CQEs and before */
	struct mr_last last;
};
static_assert(sizeof(struct sq) == CACHE_LINE, "what each message looks at");

struct offers;
struct share;
struct share_qp;
struct share_receive;

struct rwqe {
	uint64_t wr_id;
	uint32_t length; /* bytes in all SGEs */
	uint32_t num_sge;
	struct ibv_sge sge[];
};

/* Bytes of a receive with its SGEs. */
static inline size_t rwqe_bytes(const struct rwqe *r)
{
	return sizeof(*r) + r->num_sge * sizeof(r->sge[0]);
}

/* A receive queue: of one QP, or shared by many (object/srq.h). */
struct rq {
	struct lock lock; /* of an SRQ: guards all but `reclaimed`. The queue of a QP needs only qp->lock */
	uint32_t stride;
	char *ring;
	uint32_t mask, depth, max_sge;
	uint32_t head; /* position of the next receive for a message */
	uint32_t tail; /* position of the next post */
	_Atomic uint32_t reclaimed;
	/* only for an SRQ: */
	struct offers *offers; /* what local peers may claim: object/offers.h; NULL: nothing ... */
	uint32_t offered;      /* ... and the number of these receives, which are not in the ring */
	/* only for the queue of a QP: */
	struct mr_last last;
	struct share_qp *shown;	       /* where its receives are shown: object/receives.h; NULL: nowhere ... */
	struct share_receive *display; /* ... and their ring there */
	uint32_t shown_to;	       /* positions before this are shown */
	uint32_t lkey;		       /* lkey ^ rkey of each region; peers know rkeys */
	bool of_srq;		       /* what is shown is that the receives are those of an SRQ */
	uint32_t psns;		       /* messages that were delivered there: PSNs, as a packet each */
	struct share *share;	       /* table in which the QP has its entry ... */
	struct share_qp *entry;	       /* ... also while that shows nothing; NULL: it has shown nothing since RESET */
	bool settling; /* what was shown is hidden, but messages for it may come, which are done for their sender */
	struct pd *from, *pd; /* `from` allocated the ring: for buffer_free(); `pd` allocates the next */
	enum buffer_kind kind;
	uint32_t granted;	    /* receives granted to all senders */
	struct list credits;	    /* UC and UD: all senders with a grant, of all QPs of this queue */
	uint64_t period, period_at; /* period, which advances while senders request credit: engine/flow.c */
};

/* Receives that wait for a message. */
static inline uint32_t rq_posted(const struct rq *rq)
{
	return rq->tail - rq->head + rq->offered;
}

static inline struct wqe *sq_at(const struct sq *sq, uint32_t position)
{
	return (struct wqe *)(sq->ring + (size_t)(position & sq->mask) * sq->stride);
}

static inline struct rwqe *rq_at(const struct rq *rq, uint32_t position)
{
	return (struct rwqe *)(rq->ring + (size_t)(position & rq->mask) * rq->stride);
}

/* Makes a send queue: 0 or -ENOMEM. The caller has checked the limits. `after`: bytes at the end of each WQE for the
 * transport. */
int sq_init(struct sq *sq, struct pd *pd, uint32_t depth, uint32_t max_sge, uint32_t max_inline, uint32_t after);
void sq_fini(struct sq *sq);
int rq_init(struct rq *rq, struct pd *pd, enum buffer_kind kind, uint32_t depth, uint32_t max_sge);
void rq_fini(struct rq *rq);

/* The functions below need the lock of the SRQ, or that of the QP. */

/* Copies the oldest receive to *out (room for max_sge SGEs) and its position to *position. `credit`: of the sender that
 * uses it, or NULL. False: there is no receive. */
bool rq_take(struct rq *rq, struct credit *credit, struct rwqe *out, uint32_t *position);

/* Grants `receives` receives to this sender, in place of its previous grant. */
void rq_grant(struct rq *rq, struct credit *credit, uint32_t receives);

/* The sender uses a receive: its grant shrinks by one. No effect if `credit` is NULL or has no grant. */
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

/* Copies the SGEs of a receive; returns their total length. */
uint64_t rq_fill(struct rwqe *r, const struct ibv_recv_wr *wr);

/* True if a list of SGEs exists and is no longer than the queue takes. */
static inline bool sges_fit(const struct ibv_sge *list, int count, uint32_t most)
{
	return likely((uint32_t)count <= most && (list || !count));
}

/* Posts a receive with one SGE. False: the queue is full, or takes no SGEs; or the SGE is missing. */
static inline bool rq_post_piece(struct rq *rq, const struct ibv_recv_wr *wr)
{
	struct rwqe *r = rq_at(rq, rq->tail);

	/* relaxed: see cq.c reclaim() */
	if (unlikely(rq->tail - atomic_load_explicit(&rq->reclaimed, memory_order_relaxed) >= rq->depth ||
		     !sges_fit(wr->sg_list, 1, rq->max_sge)))
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
	if (unlikely(!sges_fit(wr->sg_list, wr->num_sge, rq->max_sge)))
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

/* Tells why a receive could not be posted: base/cause.h. */
void rq_refused(const struct rq *rq, uint32_t qpn, const struct ibv_recv_wr *wr, int error);

/* Appends receives. 0, or a positive errno with *bad at the first that was not posted: ENOMEM (queue full), EINVAL (too
 * many SGEs, or a missing list). */
static inline __attribute__((always_inline)) int rq_post(struct rq *rq, uint32_t qpn, struct ibv_recv_wr *wr,
							 struct ibv_recv_wr **bad)
{
	int err = 0;

	for (; wr && !err; wr = wr->next) {
		err = rq_post_one(rq, qpn, wr);
		if (unlikely(err)) {
			*bad = wr;
			rq_refused(rq, qpn, wr, err);
		}
	}
	return err;
}

/* Changes the queue's size. 0, -EINVAL (more are posted than `depth`) or -ENOMEM. Only for an SRQ, whose slots are free
 * as soon as they are taken. */
int rq_resize(struct rq *rq, uint32_t depth);

/* Bytes of a whole message. */
static inline uint64_t posted_length(const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	if (likely(wr->num_sge == 1))
		return wr->sg_list->length;
	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return length;
}

#endif
