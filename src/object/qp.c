/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The pool's memory may hold the remains of an earlier QP, and a thread that came late may be looking at its
 * lock: so the lock stays as it is, and all else is cleared under it. */
static void clear(struct qp *qp) REQUIRES(qp->lock)
{
	size_t after = offsetof(struct qp, lock) + sizeof(qp->lock);

	memset(qp, 0, offsetof(struct qp, lock));
	memset((char *)qp + after, 0, sizeof(*qp) - after);
	list_init(&qp->ready);
}

static enum transport transport_of(enum ibv_qp_type type)
{
	return type == IBV_QPT_UC ? TRANSPORT_UC : type == IBV_QPT_UD ? TRANSPORT_UD : TRANSPORT_RC;
}

struct qp *qp_create(struct hca *hca, struct pd *pd, struct cq *send_cq, struct cq *recv_cq, struct srq *srq,
		     enum ibv_qp_type type, const struct ibv_qp_cap *cap, bool sig_all)
{
	uint32_t index;
	struct qp *qp;

	if (timers_join(&hca->timers))
		goto err;
	qp = pool_alloc(&hca->qps, &index);
	if (!qp)
		goto err_timer;
	lock_take(&qp->lock);
	clear(qp);
	qp->hca = hca;
	qp->index = index;
	qp->serial = atomic_fetch_add_explicit(&hca->serial, 1, memory_order_relaxed) + 1;
	qp->transport = transport_of(type);
	if (sq_init(&qp->sq, pd, cap->max_send_wr, cap->max_send_sge, cap->max_inline_data,
		    type == IBV_QPT_UD ? sizeof(struct path) : 0))
		goto err_pool;
	if (rq_init(&qp->rq, pd, BUFFER_RECEIVE, cap->max_recv_wr, cap->max_recv_sge))
		goto err_sq;
	qp->resp.recv = malloc(srq ? srq->rq.stride : qp->rq.stride);
	if (!qp->resp.recv)
		goto err_rq;
	qp->pd = pd_domain(pd);
	qp->holder = pd_holder(pd);
	qp->send_cq = send_cq;
	qp->recv_cq = recv_cq;
	qp->srq = srq;
	qp->sig_all = sig_all;
	qp->cap = *cap;
	qp->base.qp_num = (uint32_t)hca->slot << 16 | index;
	qp->base.qp_type = type;
	qp->base.handle = index;
	qp->state = qp->base.state = IBV_QPS_RESET;
	qp->req.timeout_at = qp->req.probe_at = NEVER;
	qp->alive = true;
	lock_drop(&qp->lock);
	atomic_fetch_add_explicit(&send_cq->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&recv_cq->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&qp->holder->users, 1, memory_order_relaxed);
	if (srq)
		atomic_fetch_add_explicit(&srq->users, 1, memory_order_relaxed);
	return qp;

err_rq:
	rq_fini(&qp->rq);
err_sq:
	sq_fini(&qp->sq);
err_pool:
	lock_drop(&qp->lock);
	pool_free(&hca->qps, index);
err_timer:
	timers_leave(&hca->timers, &(struct timer){0});
err:
	errno = ENOMEM;
	return NULL;
}

void qp_destroy(struct qp *qp)
{
	struct hca *hca = qp->hca;

	lock_take(&qp->lock);
	qp->alive = false;
	lock_take(&hca->ready_lock);
	list_remove(&qp->ready);
	lock_drop(&hca->ready_lock);
	timers_leave(&hca->timers, &qp->timer);
	cq_remove_qp(qp->send_cq, qp->base.qp_num);
	cq_remove_qp(qp->recv_cq, qp->base.qp_num);
	sq_fini(&qp->sq);
	rq_fini(&qp->rq);
	free(qp->resp.recv);
	free(qp->resp.responses);
	free(qp->resp.atomics);
	qp->resp = (struct responder){0};
	atomic_fetch_sub_explicit(&qp->send_cq->users, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&qp->recv_cq->users, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&qp->holder->users, 1, memory_order_release);
	if (qp->srq)
		atomic_fetch_sub_explicit(&qp->srq->users, 1, memory_order_release);
	lock_drop(&qp->lock);
	pool_free(&hca->qps, qp->index);
}
