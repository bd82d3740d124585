// SPDX-License-Identifier: BSD-2-Clause
#include "through/made.h"

#include "check/lifetime.h"
#include "through/batch.h"
#include "through/cq_ex.h"
#include "through/shadow.h"

static void add_cq(struct shadow *s, struct ibv_cq *cq)
{
	*ibv_cq_ex_to_cq(&s->as.cq.base) = *cq;
	shadow_add(s);
	check_made(CHECK_CQ, &s->as.cq, (uint64_t)cq->cqe, cq->context, cq->channel);
}

void made_cq(struct ibv_cq *cq)
{
	struct shadow *s = shadow_make(CHECK_CQ, cq);

	if (s)
		add_cq(s, cq);
}

void made_cq_ex(struct ibv_cq_ex *cq, uint64_t fields)
{
	struct shadow *s = shadow_make(CHECK_CQ, cq);

	if (!s)
		return;
	s->is_extended = !cq_ex_open(s, cq, fields);
	add_cq(s, ibv_cq_ex_to_cq(cq));
}

void made_srq(struct ibv_srq *srq)
{
	struct shadow *s = shadow_make(CHECK_SRQ, srq);

	if (!s)
		return;
	s->as.srq.base = *srq;
	shadow_add(s);
	check_made(CHECK_SRQ, &s->as.srq, 0, srq->pd);
}

/* Neither is polled by functions that are not followed. */
static bool is_polled_by_calls(const struct shadow *send, const struct shadow *receive)
{
	return !(send && send->is_extended) && !(receive && receive->is_extended);
}

void made_qp(struct ibv_qp *qp, struct ibv_qp_ex *ex, const struct ibv_qp_cap *cap, bool signals_all)
{
	struct shadow *send = shadow_of(CHECK_CQ, qp->send_cq), *receive = shadow_of(CHECK_CQ, qp->recv_cq);
	struct shadow *srq = shadow_of(CHECK_SRQ, qp->srq), *s;

	if (!is_polled_by_calls(send, receive) || (qp->srq && !srq))
		return;
	s = shadow_make(CHECK_QP, qp);
	if (!s)
		return;
	s->as.qp.base = *qp;
	s->as.qp.cap = *cap;
	s->as.qp.sig_all = signals_all;
	s->as.qp.state = IBV_QPS_RESET;
	s->as.qp.send_cq = send ? &send->as.cq : NULL;
	s->as.qp.recv_cq = receive ? &receive->as.cq : NULL;
	s->as.qp.srq = srq ? &srq->as.srq : NULL;
	s->as.qp.reach = (struct reach *)s; /* a peer may write without a packet: any address does */
	if (ex)
		batch_open(s, ex);
	shadow_add(s);
	check_made(CHECK_QP, &s->as.qp, 0, qp->pd, s->as.qp.send_cq, s->as.qp.recv_cq, s->as.qp.srq);
}
