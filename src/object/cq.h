/* SPDX-License-Identifier: BSD-2-Clause */
/* A completion queue: a ring of CQEs. Its user (verbs/cq.c) makes and frees it; QPs that complete to it count in
 * `users`. `lock` guards all below it. Any thread may call. */
#ifndef UROCE_CQ_H
#define UROCE_CQ_H

#include <infiniband/verbs.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/trace.h"
#include "object/hca.h"
#include "object/pd.h"

struct channel;

/* A CQE is PENDING from cq_push() to cq_poll(), then POLLED. */
struct cqe {
	uint64_t wr_id;
	/* These four are in the order of struct ibv_wc, so that they are copied as one. */
	uint32_t byte_len;
	uint32_t imm; /* immediate data as on the wire; invalidated rkey; raw: flow tag; if `failed`: enum cause */
	uint32_t qpn;
	uint32_t src_qp; /* UD: QPN of the sender */
	uint32_t wqe;	 /* position of the work request: polling the CQE frees its slot */
	uint8_t status;	 /* enum ibv_wc_status */
	uint8_t opcode;	 /* enum ibv_wc_opcode */
	uint8_t flags;	 /* enum ibv_wc_flags */
	uint8_t marks;	 /* enum cqe_mark. No bit-fields, with which gcc would build the CQE in memory first */
};
static_assert(sizeof(struct cqe) == 32, "a CQE is half a cache line");

enum cqe_mark {
	CQE_SOLICITED = 1 << 0,
	CQE_KEEPS_SLOT = 1 << 1, /* XRC: polling frees no slot of a queue of that QP */
	CQE_FAILED = 1 << 2,	 /* the status is an error, with a cause */
	CQE_SL = 1 << 4,	 /* UD: enum grh_kind, times this */
};

static inline uint8_t cqe_sl(uint8_t marks)
{
	return marks / CQE_SL;
}

enum cq_arm {
	CQ_UNARMED,
	CQ_ARMED_SOLICITED, /* wakes for solicited completions and for errors */
	CQ_ARMED,	    /* wakes for any completion */
};

struct cq {
	struct ibv_cq_ex base; /* the application's object (ibv_cq or ibv_cq_ex): first */
	struct hca *hca;
	struct channel *channel;       /* channel of its events; NULL: none. Constant */
	void (*notify)(struct cq *cq); /* callback in place of `channel`, for our own use; as hca_ops. Constant */
	_Atomic uint32_t users;
	struct pd *holder; /* parent domain in which it was made, or NULL. Constant */

	struct lock lock;
	struct cqe *ring;
	struct pd *from;       /* PD of the ring's memory: for buffer_free() */
	uint32_t depth;	       /* CQEs that fit, as base.cqe */
	uint32_t mask;	       /* size of the ring, a power of two >= depth, less 1 */
	_Atomic uint32_t head; /* next CQE to be polled; like tail written under the lock, read by cq_looks_empty() */
	_Atomic uint32_t tail; /* next CQE to be written */
	_Atomic uint32_t arm;  /* enum cq_arm; like `overrun` written under the lock, read by cq_is_polled() */
	uint16_t batch;	       /* completions per event, for moderation; 0, 1: one */
	uint16_t held;	       /* completions since the last event */
	bool ignore_overrun;   /* constant */
	_Atomic bool overrun;  /* a completion was lost: no more are taken (IBTA 11.6.2.1, CQ error) */
	uint32_t told;	       /* fill of the ring at the last event */
	uint32_t events;       /* channel events sent for this CQ and not yet fetched: verbs/channel.c */
	struct list waiting;   /* in channel->ready: verbs/channel.c */
};

/* Makes the ring for `depth` CQEs; 0, -EINVAL (0 or above HCA_MAX_CQE) or -ENOMEM. The caller has zeroed *cq, and may
 * have set cq->holder. */
int cq_init(struct cq *cq, struct hca *hca, uint32_t depth);
void cq_fini(struct cq *cq);

/* Values that change under the lock only, so its holder reads them relaxed. */
static inline uint32_t cq_head(const struct cq *cq)
{
	return atomic_load_explicit(&cq->head, memory_order_relaxed);
}

static inline uint32_t cq_tail(const struct cq *cq)
{
	return atomic_load_explicit(&cq->tail, memory_order_relaxed);
}

/* Values that are written under the lock too. Without it they are hints. */
static inline uint32_t cq_arm(const struct cq *cq)
{
	return atomic_load_explicit(&cq->arm, memory_order_relaxed);
}

static inline bool cq_overrun(const struct cq *cq)
{
	return atomic_load_explicit(&cq->overrun, memory_order_relaxed);
}

/* The uncommon parts of cq_push(); both release the lock. cq_refuse(): the CQE does not fit; true if the CQ ignores
 * overruns. cq_wake(): a CQE has come to an armed CQ; `urgent`: it is solicited or an error. */
bool cq_refuse(struct cq *cq) RELEASE(cq->lock);
void cq_wake(struct cq *cq, bool urgent) RELEASE(cq->lock);

/* True if the CQ looks empty. A hint without the lock. */
static inline bool cq_looks_empty(const struct cq *cq)
{
	/* acquire pairs with the release in cq_push(), so that a poll right after sees the CQE */
	return atomic_load_explicit(&cq->tail, memory_order_acquire) ==
	       atomic_load_explicit(&cq->head, memory_order_relaxed);
}

/* A thread that has found a CQ empty and receives: completions may go to the thread directly. */
struct cq_poller {
	struct cq *cq;
	struct ibv_wc *wc;
	int max, got;
};

/* True if a success may be given to `by`: it would be the next completion that this thread finds in the CQ. The CQEs of
 * a QP are pushed under its lock, so the holder sees whether earlier ones wait. A concurrent ibv_req_notify_cq() is
 * ordered after this completion, so it need not notify. */
static inline bool cq_is_polled(const struct cq *cq, const struct cq_poller *by)
{
	return by && by->cq == cq && by->got < by->max && cq_looks_empty(cq) &&
	       likely(cq_arm(cq) == CQ_UNARMED && !cq_overrun(cq));
}

/* Writes a completion as the application sees it, field by field, as in cq_push(). The caller traces it. */
static inline __attribute__((always_inline)) void cq_show(struct ibv_wc *wc, uint64_t wr_id, uint8_t status,
							  uint8_t opcode, uint32_t byte_len, uint32_t imm, uint32_t qpn,
							  uint32_t src_qp, uint8_t flags, uint8_t sl)
{
	wc->wr_id = wr_id;
	wc->status = status;
	wc->opcode = opcode;
	wc->vendor_err = 0;
	wc->byte_len = byte_len;
	wc->imm_data = imm;
	wc->qp_num = qpn;
	wc->src_qp = src_qp;
	wc->wc_flags = flags;
	wc->pkey_index = 0;
	wc->slid = 0;
	wc->sl = sl;
	wc->dlid_path_bits = 0;
}

/* Writes a CQE; the one place that does. False: no room. */
static inline __attribute__((always_inline)) bool cq_put(struct cq *cq, struct cqe cqe) REQUIRES(cq->lock)
{
	uint32_t tail = cq_tail(cq);
	struct cqe *to = &cq->ring[tail & cq->mask];

	if (unlikely(cq_overrun(cq) || tail - cq_head(cq) >= cq->depth))
		return false;
	to->wr_id = cqe.wr_id;
	to->byte_len = cqe.byte_len;
	to->imm = cqe.imm;
	to->qpn = cqe.qpn;
	to->src_qp = cqe.src_qp;
	to->wqe = cqe.wqe;
	to->status = cqe.status;
	to->opcode = cqe.opcode;
	to->flags = cqe.flags;
	to->marks = cqe.marks;
	atomic_store_explicit(&cq->tail, tail + 1, memory_order_release); /* pairs with cq_looks_empty() */
	return true;
}

/* Adds a CQE; tells hca->ops->cq_event if the CQ was armed for it, or cq_delayed if moderation holds the event back for
 * now. A success may go to `poller` (NULL: no thread polls); the slot that it frees is noted in *reclaimed. False: the
 * CQ was full, or had overrun before; then hca->ops->cq_error is told (once) and the CQE is lost.
 *
 * Inlined, and field by field, so that what the caller has in registers goes to the ring at once: by way of memory it
 * would be read back in larger pieces than it was written in, which stalls the processor. */
static inline __attribute__((always_inline)) bool cq_push(struct cq *cq, struct cq_poller *poller,
							  _Atomic uint32_t *reclaimed, struct cqe cqe)
	EXCLUDES(cq->lock)
{
	if (poller && likely(cqe.status == IBV_WC_SUCCESS && cq_is_polled(cq, poller))) {
		trace(poll, cqe.qpn, cqe.wr_id, cqe.status, cqe.opcode, 0, 0);
		cq_show(&poller->wc[poller->got++], cqe.wr_id, cqe.status, cqe.opcode, cqe.byte_len, cqe.imm, cqe.qpn,
			cqe.src_qp, cqe.flags, cqe_sl(cqe.marks));
		atomic_store_explicit(reclaimed, cqe.wqe + 1, memory_order_relaxed); /* see cq.c reclaim() */
		return true;
	}

	lock_take(&cq->lock);
	if (unlikely(!cq_put(cq, cqe)))
		return cq_refuse(cq);
	if (unlikely(cq_arm(cq) != CQ_UNARMED))
		cq_wake(cq, cqe.marks & CQE_SOLICITED || cqe.status != IBV_WC_SUCCESS);
	else
		lock_drop(&cq->lock);
	return true;
}

/* Sends one event for `batch` completions from now on. */
void cq_moderate(struct cq *cq, uint16_t batch) EXCLUDES(cq->lock);
/* Sends the event that moderation has delayed. */
void cq_release(struct cq *cq) EXCLUDES(cq->lock);

/* Arms the CQ: cq_event comes for the next completion (the next solicited one), or at once if completions wait that
 * caused no event. */
void cq_request(struct cq *cq, bool solicited_only) EXCLUDES(cq->lock);

/* True if completions are left in a CQ that is armed for any. A hint without the lock. */
static inline bool cq_has_left(const struct cq *cq)
{
	return unlikely(cq_arm(cq) == CQ_ARMED) && !cq_looks_empty(cq);
}

/* Sends an event for completions that are left. */
void cq_tell_rest(struct cq *cq) EXCLUDES(cq->lock);

/* Called at the end of a poll, as by cq_poll_wc(). Completions that are left in an armed CQ were there when it was
 * armed: adapters send their event at that moment. uroce sends it now, so that a program that arms first and then polls
 * until the CQ is empty gets no needless event. */
static inline void cq_left(struct cq *cq)
{
	if (cq_has_left(cq))
		cq_tell_rest(cq);
}

/* Changes the ring's size. 0, -EINVAL (fewer than are pending, or above the limit) or -ENOMEM. */
int cq_resize(struct cq *cq, uint32_t depth) EXCLUDES(cq->lock);

/* Forgets the CQEs of a QP that is being destroyed or reset. */
void cq_remove_qp(struct cq *cq, uint32_t qpn) EXCLUDES(cq->lock);

#endif
