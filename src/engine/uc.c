/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder of UC (IBTA 9.8.2.2): the responder of RC without answers. A message that has lost a packet, or
 * that is not allowed, is dropped silently, and the next message takes its receive. */

#include "engine/unreliable.h"

#include "engine/cause.h"
#include "engine/complete.h"
#include "engine/message.h"

/* Drops the message in progress, if any. */
static void uc_abandon(struct qp *qp)
{
	qp->resp.inbound = INBOUND_NONE;
}

static void uc_refuse(struct qp *qp, const struct packet *p, enum verdict verdict)
{
	trace(drop, qp->base.qp_num, p->psn.v, p->opcode, verdict, 0, 0);
	uc_abandon(qp);
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

void uc_receive(struct qp *qp, const struct packet *p)
{
	struct responder *r = &qp->resp;
	enum verdict verdict;

	/* 9.8.2.2.1: after a gap in the PSNs, a message may begin but not continue */
	if (!psn_equal(p->psn, r->expected) || opcode_info[p->opcode].flags & IS_FIRST)
		uc_abandon(qp);
	r->expected = psn_add(p->psn, 1);
	r->credit = qp->credit;
	verdict = check_sequence(qp, p) ?: check_operation(qp, p) ?: check_receive(qp, p)
		  ?: check_length(qp, p) ?: check_rkey(qp, p) ?: execute(qp, p);
	if (verdict == ACCEPT)
		message_advance(qp, p);
	else
		uc_refuse(qp, p, verdict);
}
