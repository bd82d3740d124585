// SPDX-License-Identifier: BSD-2-Clause
#include "through/cq_ex.h"

#include <errno.h>

#include "check/operations.h"
#include "through/post.h"

static int polled(struct shadow *s, struct ibv_cq_ex *cq, int result)
{
	struct ibv_cq *as = ibv_cq_ex_to_cq(&s->as.cq.base);
	bool is_receive;
	uint32_t qpn;

	if (result == ENOENT)
		check_polled_none(as);
	if (result)
		return result;
	qpn = cq->read_qp_num(cq);
	if (cq->status == IBV_WC_SUCCESS)
		is_receive = cq->read_opcode(cq) & IBV_WC_RECV;
	else
		is_receive = !failed_send(qpn, cq->wr_id);
	check_polled_one(as, qpn, cq->wr_id, cq->status, is_receive);
	return 0;
}

static int from_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	struct shadow *s = shadow_of(CHECK_CQ, cq);

	return polled(s, cq, s->start_poll(cq, attr));
}

static int from_next_poll(struct ibv_cq_ex *cq)
{
	struct shadow *s = shadow_of(CHECK_CQ, cq);

	return polled(s, cq, s->next_poll(cq));
}

bool cq_ex_open(struct shadow *s, struct ibv_cq_ex *cq, uint64_t fields)
{
	if (!(fields & IBV_WC_EX_WITH_QP_NUM) || !cq->read_qp_num || !cq->read_opcode)
		return false;
	s->start_poll = cq->start_poll;
	s->next_poll = cq->next_poll;
	cq->start_poll = from_start_poll;
	cq->next_poll = from_next_poll;
	return true;
}
