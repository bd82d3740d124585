/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/cq_poll.h"

#include "base/trace.h"
#include "object/qp.h"

/* Frees the slot of a CQE and all before it, as on hardware. The QP still exists: qp_destroy() removes its CQEs
 * first. */
static inline void reclaim(struct cq *cq, const struct cqe *cqe)
{
	_Atomic uint32_t *reclaimed;
	struct qp *qp;

	qp = pool_at_random(&cq->hca->qps, cqe->qpn & 0xffff);
	reclaimed = cqe->opcode & IBV_WC_RECV ? &qp->rq.reclaimed : &qp->sq.reclaimed;
	/* relaxed: a count; the lock of the queue guards the slots */
	atomic_store_explicit(reclaimed, cqe->wqe + 1, memory_order_relaxed);
}

typedef void cqe_take(void *to, int i, const struct cqe *cqe);

/* Takes CQEs with a mark. One test finds both marks, since they are rare. */
static __attribute__((noinline, cold)) void take_rare(struct cq *cq, const struct cqe *cqe, void *to, int i,
						      cqe_take *take_cause)
{
	if (cqe->marks & CQE_FAILED && take_cause)
		take_cause(to, i, cqe);
	if (!(cqe->marks & CQE_KEEPS_SLOT)) /* else the QP may be destroyed, or belong to another process */
		reclaim(cq, cqe);
}

static inline bool is_same_queue(const struct cqe *a, const struct cqe *b)
{
	return a->qpn == b->qpn && !((a->opcode ^ b->opcode) & IBV_WC_RECV);
}

/* Takes CQEs. Inlined with `take`, so that a CQE is copied once. `is_end`: the poll ends with this call: cq_left(). */
static inline __attribute__((always_inline)) int cq_drain(struct cq *cq, int max, void *to, cqe_take *take,
							  cqe_take *take_cause, bool is_end)
{
	const struct cqe *cqe, *kept = NULL; /* `kept`: its slot, and those before it, are still to be freed */
	uint32_t head, tail;
	int n = 0;

	lock_take(&cq->lock);
	tail = cq_tail(cq);
	for (head = cq_head(cq); n < max && head != tail; head++, n++) {
		cqe = &cq->ring[head & cq->mask];
		take(to, n, cqe);
		if (kept && !is_same_queue(kept, cqe))
			reclaim(cq, kept);
		kept = cqe;
		if (unlikely(cqe->marks & (CQE_KEEPS_SLOT | CQE_FAILED))) {
			take_rare(cq, cqe, to, n, take_cause);
			kept = NULL;
		}
	}
	if (likely(kept))
		reclaim(cq, kept);
	atomic_store_explicit(&cq->head, head, memory_order_relaxed);
	if (is_end && unlikely(cq_has_left(cq)))
		cq_wake(cq, true);
	else
		lock_drop(&cq->lock);
	return n;
}

static inline void take_cqe(void *to, int i, const struct cqe *cqe)
{
	((struct cqe *)to)[i] = *cqe;
}

static __attribute__((noinline, cold)) void trace_taken(const struct cqe *e)
{
	trace(poll, e->qpn, e->wr_id, e->status, e->opcode, 0, 0);
}

int cq_poll(struct cq *cq, int max, struct cqe *out)
{
	return cq_looks_empty(cq) ? 0 : cq_drain(cq, max, out, take_cqe, NULL, false);
}

static inline void take_wc(void *to, int i, const struct cqe *e)
{
	if (hooks_any())
		trace_taken(e);
	cq_show((struct ibv_wc *)to + i, e->wr_id, e->status, e->opcode, e->byte_len, e->imm, e->qpn, e->src_qp,
		e->flags, cqe_sl(e->marks));
}

static void take_wc_cause(void *to, int i, const struct cqe *e)
{
	struct ibv_wc *wc = (struct ibv_wc *)to + i;

	wc->vendor_err = e->imm;
	wc->imm_data = 0;
}

int cq_poll_wc(struct cq *cq, int max, struct ibv_wc *out)
{
	return cq_drain(cq, max, out, take_wc, take_wc_cause, true);
}
