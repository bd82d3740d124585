/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/share.h"
#include "object/board.h"
#include "object/checker.h"
#include "object/early.h"
#include "object/receives.h"

const struct checker *checker;

static void clear_part(struct qp *qp, size_t begin, size_t end)
{
	memset((char *)qp + begin, 0, end - begin);
}

/* Clears a QP under its lock, which stays as it is: the memory may hold an earlier QP, and a thread may still be
 * checking its lock. */
static void qp_clear(struct qp *qp) REQUIRES(qp->lock)
{
	clear_part(qp, 0, offsetof(struct qp, lock));
	clear_part(qp, offsetof(struct qp, lock) + sizeof(qp->lock), sizeof(*qp));
	list_init(&qp->ready);
	list_init(&qp->settles);
}

static enum transport transport_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_UC:
		return TRANSPORT_UC;
	case IBV_QPT_UD:
		return TRANSPORT_UD;
	case IBV_QPT_RAW_PACKET:
		return TRANSPORT_RAW;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return TRANSPORT_XRC;
	default:
		return TRANSPORT_RC;
	}
}

/* Bytes for a receive from any queue that the QP can use. */
static size_t receive_bytes(const struct qp *qp, const struct srq *srq, enum ibv_qp_type type)
{
	if (type == IBV_QPT_XRC_RECV)
		return sizeof(struct rwqe) + HCA_MAX_SGE * sizeof(struct ibv_sge);
	return srq ? srq->rq.stride : qp->rq.stride;
}

/* Adds `by` to the user counts of all objects that the QP uses. */
static void count_users(struct qp *qp, uint32_t by)
{
	_Atomic uint32_t *const users[] = {
		qp->send_cq ? &qp->send_cq->users : NULL,
		qp->recv_cq ? &qp->recv_cq->users : NULL,
		qp->holder ? &qp->holder->users : NULL,
		qp->srq ? &qp->srq->users : NULL,
	};

	/* release: the QP has stopped using them when the thread that destroys them sees the count */
	for (size_t i = 0; i < ARRAY_SIZE(users); i++)
		if (users[i])
			atomic_fetch_add_explicit(users[i], by, memory_order_release);
}

/* Allocates what only some services have, and room for a receive; qp_create() frees all on an error. 0 or -ENOMEM. */
static int alloc_by_service(struct qp *qp, const struct srq *srq, enum ibv_qp_type type)
{
	bool is_ud = type == IBV_QPT_UD;

	qp->resp.recv = malloc(receive_bytes(qp, srq, type));
	if (!qp->resp.recv)
		return -ENOMEM;
	if (qp->transport == TRANSPORT_UC || qp->transport == TRANSPORT_UD) {
		qp->flow = calloc(is_ud ? UD_FLOWS : 1, sizeof(*qp->flow));
		qp->credit = calloc(is_ud ? UD_CREDITS : 1, sizeof(*qp->credit));
		return qp->flow && qp->credit ? 0 : -ENOMEM;
	}
	if (qp->transport == TRANSPORT_XRC) {
		qp->xrc = calloc(1, sizeof(*qp->xrc));
		if (!qp->xrc)
			return -ENOMEM;
		list_init(&qp->xrc->openers);
	}
	return 0;
}

static void free_by_service(struct qp *qp)
{
	free(qp->flow);
	free(qp->credit);
	free(qp->resp.recv);
	qp->flow = NULL;
	qp->credit = NULL;
	qp->resp.recv = NULL;
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
	qp_clear(qp);
	qp->hca = hca;
	qp->index = index;
	qp->serial = atomic_fetch_add_explicit(&hca->serial, 1, memory_order_relaxed) + 1;
	qp->transport = transport_of(type);
	if (sq_init(&qp->sq, pd, cap->max_send_wr, cap->max_send_sge, cap->max_inline_data,
		    type == IBV_QPT_UD ? sizeof(struct path) : 0))
		goto err_pool;
	if (rq_init(&qp->rq, pd, BUFFER_RECEIVE, cap->max_recv_wr, cap->max_recv_sge))
		goto err_sq;
	if (alloc_by_service(qp, srq, type))
		goto err_rq;
	qp->pd = pd ? pd_domain(pd) : NULL;
	qp->holder = pd ? pd_holder(pd) : NULL;
	qp->send_cq = send_cq;
	qp->recv_cq = recv_cq;
	qp->srq = srq;
	qp->sig_all = sig_all;
	qp->cap = *cap;
	qp->base.qp_num = hca_number(hca, index);
	qp->base.qp_type = type;
	qp->base.handle = index;
	qp->state = qp->base.state = IBV_QPS_RESET;
	qp->req.timeout_at = qp->req.probe_at = NEVER;
	qp->alive = true;
	lock_drop(&qp->lock);
	count_users(qp, 1);
	return qp;

err_rq:
	free_by_service(qp);
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

void qp_withdraw(struct qp *qp)
{
	struct rq *rq = qp_receives(qp);

	lock_take(&rq->lock);
	for (uint32_t i = 0; i < (qp->transport == TRANSPORT_UD ? UD_CREDITS : 1); i++)
		rq_grant(rq, &qp->credit[i], qp->credit[i].asked_at = 0);
	lock_drop(&rq->lock);
}

void requester_free(struct requester *r)
{
	if (r->board)
		board_clear(r->board, r->una);
	if (r->reads)
		board_clear(&r->reads->board, r->una);
	free(r->board);
	free(r->reads);
	early_drop(&r->answers);
	r->board = NULL;
	r->reads = NULL;
}

void responder_free(struct responder *r)
{
	for (uint32_t i = 0; i < r->answer_slots; i++)
		kept_read_free(r->answers[i].kept);
	free(r->responses);
	free(r->answers);
	kept_read_free_all(&r->spent);
	free(r->repairs);
	early_drop(&r->early);
}

/* True if local peers may see the QP. A UC QP is no target, but local peers compare its addresses too. */
static bool is_shown(const struct qp *qp)
{
	if (!qp->alive || qp->needs_packets || (qp->transport != TRANSPORT_RC && qp->transport != TRANSPORT_UC))
		return false;
	/* the first request tells a QP in RTR that the connection is established: it must arrive as a packet */
	return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD || (qp->state == IBV_QPS_RTR && qp->comm_est);
}

static void show_receives(struct qp *qp, struct share *s)
{
	uint32_t queue = qp->srq ? srq_offer(qp->srq) : 0;

	if (queue || !qp->srq)
		receives_open(&qp->rq, s, qp->index, queue, qp->hca->keys.lkey);
}

void qp_show(struct qp *qp)
{
	unsigned access = qp->attr.qp_access_flags & MR_REMOTE;
	struct share *s = qp->hca->share;

	if (!s)
		return;
	if (!is_shown(qp)) {
		receives_hide(&qp->rq);
		share_close_qp(s, qp->index);
		return;
	}
	if (qp->transport != TRANSPORT_RC)
		access = 0;
	if (!qp->resp.response_size) /* without room for READs and atomics, none are allowed */
		access &= IBV_ACCESS_REMOTE_WRITE;
	share_open_qp(s, qp->index, access, (uintptr_t)qp->pd,
		      share_pair(qp->path.sgid.raw, qp->base.qp_num, qp->path.dgid.raw, qp->attr.dest_qp_num));
	if (qp->transport == TRANSPORT_RC)
		show_receives(qp, s);
}

/* Puts receives of the SRQ that messages to the QP have claimed, and will not use, back into it. */
static void return_claimed(struct qp *qp) EXCLUDES(qp->lock)
{
	bool claims;

	lock_take(&qp->lock);
	qp->alive = false;
	qp_show(qp);
	claims = qp->rq.of_srq;
	lock_drop(&qp->lock);
	if (!claims)
		return;
	share_settle(qp->hca->share);
	srq_return_claimed(qp->srq, qp->index);
}

void qp_destroy(struct qp *qp)
{
	struct hca *hca = qp->hca;

	if (hca_is_inert(hca)) {
		qp->base.handle = NO_HANDLE;
		count_users(qp, -1u);
		return;
	}
	if (qp->srq)
		return_claimed(qp);
	lock_take(&qp->lock);
	qp->alive = false;
	qp_show(qp);
	lock_take(&hca->ready_lock);
	list_remove(&qp->ready);
	list_remove(&qp->settles);
	lock_drop(&hca->ready_lock);
	timers_leave(&hca->timers, &qp->timer);
	if (qp->send_cq)
		cq_remove_qp(qp->send_cq, qp->base.qp_num);
	if (qp->recv_cq)
		cq_remove_qp(qp->recv_cq, qp->base.qp_num);
	if (qp->state != IBV_QPS_RESET) /* waits for nothing any more */
		trace(qp_state, qp->base.qp_num, qp->state, IBV_QPS_RESET, 0, 0, 0);
	if (qp->credit)
		qp_withdraw(qp);
	sq_fini(&qp->sq);
	rq_fini(&qp->rq);
	free(qp->resp.recv);
	responder_free(&qp->resp);
	requester_free(&qp->req);
	free(qp->flow);
	free(qp->credit);
	free(qp->xrc);
	qp->flow = NULL;
	qp->credit = NULL;
	qp->xrc = NULL;
	qp->resp = (struct responder){0};
	qp->base.handle = NO_HANDLE;
	count_users(qp, -1u);
	lock_drop(&qp->lock);
	pool_free(&hca->qps, qp->index);
}
