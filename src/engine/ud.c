/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder of UD (IBTA 9.8.3.2): a datagram takes a receive that is large enough, or is dropped silently. */

#include "engine/unreliable.h"

#include <string.h>

#include "base/trace.h"
#include "engine/cause.h"
#include "engine/complete.h"
#include "engine/flow.h"
#include "engine/message.h"
#include "engine/tuned.h"
#include "wire/grh.h"

static enum verdict check_qkey(const struct qp *qp, const struct packet *p)
{
	return p->qkey == qp->attr.qkey ? ACCEPT : ACCESS_DENIED;
}

/* A receive that is too small waits for a smaller datagram. */
static enum verdict check_room(const struct qp *qp, const struct packet *p)
{
	return GRH_BYTES + p->length > qp->resp.recv->length ? TOO_LONG : ACCEPT;
}

static bool ud_scatter(struct qp *qp, uint64_t offset, const void *bytes, uint32_t length)
{
	const struct rwqe *recv = qp->resp.recv;

	return sge_scatter(qp->hca, receive_pd(qp), recv->sge, recv->num_sge, offset, bytes, length);
}

static enum verdict ud_store(struct qp *qp, const struct packet *p, const union ibv_gid *from)
{
	uint32_t begin = min_of(p->length, UD_TOGETHER);
	uint8_t first[GRH_BYTES + UD_TOGETHER];

	grh_encode(p, from->raw, first);
	memcpy(first + GRH_BYTES, p->payload, begin);
	if (!ud_scatter(qp, 0, first, GRH_BYTES + begin) ||
	    !ud_scatter(qp, GRH_BYTES + begin, p->payload + begin, p->length - begin))
		return BAD_RECEIVE;
	trace(execute, qp->base.qp_num, p->psn.v, p->opcode, 0, p->length, 0);
	qp->resp.received = GRH_BYTES + p->length;
	return ACCEPT;
}

void ud_receive(struct qp *qp, const struct packet *p, const union ibv_gid *from)
{
	enum verdict verdict;

	qp->resp.credit = flow_credit(qp, p->src_qpn, from);
	verdict = check_qkey(qp, p) ?: check_receive(qp, p) ?: check_room(qp, p) ?: ud_store(qp, p, from);
	if (verdict == ACCEPT) {
		complete_receive(qp, p);
		return;
	}
	trace(drop, qp->base.qp_num, p->psn.v, p->opcode, verdict, 0, 0);
	if (verdict == NOT_READY)
		qp_count(qp, HCA_NO_RECEIVE);
	if (verdict != BAD_RECEIVE) {
		cause_drop(qp, p, verdict);
		return;
	}
	cause_receive(qp);
	fail_receive(qp, IBV_WC_LOC_PROT_ERR, p);
	enter_error(qp);
}
