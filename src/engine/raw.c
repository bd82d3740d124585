/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw packet QPs: a work request is an Ethernet frame. unreliable.c sends it. */

#include "engine/cause.h"
#include "engine/complete.h"
#include "engine/engine.h"

/* A receive that is too small waits for a smaller frame, as in ud.c. */
bool engine_receive_frame(struct qp *qp, const void *frame, uint32_t length, uint32_t tag)
{
	const struct packet p = {
		.opcode = TRANSPORT_RAW | OP_SEND_ONLY, .length = length, .payload = frame, .imm = tag};
	struct responder *r = &qp->resp;

	if (!qp_is_receiving(qp))
		return true;
	if (!r->has_recv && !take_receive(qp, &p))
		return false;
	if (length > r->recv->length)
		return true;
	r->received = length;
	if (sge_scatter(qp->hca, receive_pd(qp), r->recv->sge, r->recv->num_sge, 0, frame, length)) {
		trace(execute, qp->base.qp_num, 0, p.opcode, 0, length, 0);
		complete_receive(qp, &p);
	} else {
		cause_receive(qp);
		fail_receive(qp, IBV_WC_LOC_PROT_ERR, &p);
		enter_error(qp);
	}
	settle_overrun(qp);
	return true;
}
