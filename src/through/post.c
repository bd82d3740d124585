// SPDX-License-Identifier: BSD-2-Clause
/* Requests and completions: from the program to src/check/, with shadows; and from there to the adapter. */
#include "through/post.h"

#include "check/objects.h"
#include "check/operations.h"
#include "check/queues.h"
#include "check/request.h"
#include "through/followed.h"
#include "through/shadow.h"

/* Those of src/check/, in front of those below. */
static struct ibv_context_ops checking;
static _Thread_local post_send_function *post_instead; /* in place of the adapter's post_send; NULL: none */

/* ---- to the adapter: the objects are shadows ---- */

static int to_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_qp *real = shadow_from(qp)->real;
	post_send_function *post = post_instead ?: through_ops(real->context)->post_send;

	post_instead = NULL;
	return post(real, wr, bad);
}

static int to_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ibv_qp *real = shadow_from(qp)->real;

	return through_ops(real->context)->post_recv(real, wr, bad);
}

static int to_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ibv_srq *real = shadow_from(srq)->real;

	return through_ops(real->context)->post_srq_recv(real, wr, bad);
}

static bool is_among(struct list *requests, uint64_t wr_id) REQUIRES(objects_lock)
{
	list_each_safe (l, requests)
		if (container_of(l, struct request, link)->wr_id == wr_id)
			return true;
	return false;
}

/* The opcode of a completion with an error is undefined, but src/check/ has to know which queue it is of. */
bool failed_send(uint32_t qpn, uint64_t wr_id)
{
	struct queues *q;
	struct shadow *s;
	bool is_send;

	lock_take(&objects_lock);
	q = queues_of_number(qpn);
	s = q && q->qp ? shadow_of(CHECK_QP, shadow_from(q->qp)->real) : NULL;
	if (s)
		s->as.qp.state = IBV_QPS_ERR;
	is_send = q && is_among(&q->sends, wr_id);
	lock_drop(&objects_lock);
	return is_send;
}

static int to_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	struct ibv_cq *real = shadow_from(cq)->real;
	int count = through_ops(real->context)->poll_cq(real, entries, wc);

	for (int i = 0; i < count; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			wc[i].opcode = failed_send(wc[i].qp_num, wc[i].wr_id) ? IBV_WC_SEND : IBV_WC_RECV;
	return count;
}

static int to_req_notify_cq(struct ibv_cq *cq, int solicited)
{
	struct ibv_cq *real = shadow_from(cq)->real;

	return through_ops(real->context)->req_notify_cq(real, solicited);
}

/* ---- from the program: the objects are the adapter's ---- */

static int from_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct shadow *s = shadow_of(CHECK_QP, qp);

	return s ? checking.post_send(&s->as.qp.base, wr, bad) : through_ops(qp->context)->post_send(qp, wr, bad);
}

static int from_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct shadow *s = shadow_of(CHECK_QP, qp);

	return s ? checking.post_recv(&s->as.qp.base, wr, bad) : through_ops(qp->context)->post_recv(qp, wr, bad);
}

static int from_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct shadow *s = shadow_of(CHECK_SRQ, srq);

	return s ? checking.post_srq_recv(&s->as.srq.base, wr, bad)
		 : through_ops(srq->context)->post_srq_recv(srq, wr, bad);
}

static int from_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	struct shadow *s = shadow_of(CHECK_CQ, cq);

	return s ? checking.poll_cq(ibv_cq_ex_to_cq(&s->as.cq.base), entries, wc)
		 : through_ops(cq->context)->poll_cq(cq, entries, wc);
}

static int from_req_notify_cq(struct ibv_cq *cq, int solicited)
{
	struct shadow *s = shadow_of(CHECK_CQ, cq);

	return s ? checking.req_notify_cq(ibv_cq_ex_to_cq(&s->as.cq.base), solicited)
		 : through_ops(cq->context)->req_notify_cq(cq, solicited);
}

int post_checked(struct ibv_qp *as, struct ibv_send_wr *wr, struct ibv_send_wr **bad, post_send_function *instead)
{
	int error;

	post_instead = instead;
	error = checking.post_send(as, wr, bad);
	post_instead = NULL;
	return error;
}

static void begin_checking(void)
{
	checking.post_send = to_post_send;
	checking.post_recv = to_post_recv;
	checking.post_srq_recv = to_post_srq_recv;
	checking.poll_cq = to_poll_cq;
	checking.req_notify_cq = to_req_notify_cq;
	check_operations(&checking, NULL, NULL); /* no races are looked for */
}

void through_take_requests(struct ibv_context_ops *ops)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, begin_checking);
	ops->post_send = from_post_send;
	ops->post_recv = from_post_recv;
	ops->post_srq_recv = from_post_srq_recv;
	ops->poll_cq = from_poll_cq;
	ops->req_notify_cq = from_req_notify_cq;
}
