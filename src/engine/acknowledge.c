/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/responder.h"

#include "base/trace.h"
#include "engine/checks.h"
#include "engine/owed.h"
#include "wire/sack.h"

/* Makes an ACK or NAK. */
static bool ack_packet(struct qp *qp, struct tx_batch *batch, psn_t psn, uint8_t syndrome)
{
	struct responder *r = &qp->resp;
	uint8_t opcode = OP_ACKNOWLEDGE | qp->transport;
	struct tx *tx = batch_has_room(batch, 0, true) ? batch_packet(qp, batch, opcode, psn) : NULL;

	if (!tx)
		return false;
	tx->packet.syndrome = syndrome;
	tx->packet.msn = r->msn;
	responder_owes_nothing(r);
	trace(acknowledge, qp->base.qp_num, tx->packet.dest_qpn, psn.v, syndrome, r->msn, 0);
	return true;
}

/* Makes a selective acknowledgement. It leaves before a NAK, which then says nothing new. */
static bool sack_packet(struct qp *qp, struct tx_batch *batch)
{
	uint8_t *payload = (uint8_t *)batch->bounce + batch->bounced;
	psn_t expected = qp->resp.expected;
	struct tx *tx = batch_has_room(batch, SACK_PAYLOAD, true)
				? batch_packet(qp, batch, OPCODE_SELECTIVE_ACK, expected)
				: NULL;

	if (!tx)
		return false;
	batch_bytes(batch, tx, payload, early_tell(qp->resp.early, expected, &qp->resp.told_newest, payload));
	batch->bounced += tx->packet.length;
	qp->resp.sack_owed = false;
	trace(acknowledge, qp->base.qp_num, tx->packet.dest_qpn, expected.v, SYNDROME_NAK, qp->resp.msn, 0);
	return true;
}

bool responder_acknowledge(struct qp *qp, struct tx_batch *batch)
{
	struct responder *r = &qp->resp;

	if (r->response_count)
		return true;
	if (unlikely(r->sack_owed) && !sack_packet(qp, batch))
		return true;
	if (r->nak) {
		if (!ack_packet(qp, batch, r->nak_psn, r->nak))
			return true;
		r->nak = 0;
	}
	if (responder_owes_ack(r, batch->delay_ack) &&
	    !ack_packet(qp, batch, r->ack_psn, SYNDROME_ACK | SYNDROME_NO_CREDITS))
		return true;
	if (r->cnp_owed) { /* the peer trusts it by its PSN: completer_congested() */
		static const uint8_t reserved[16];
		struct tx *tx = batch_packet(qp, batch, OPCODE_CNP, r->peer_is_uroce ? r->expected : psn(0));

		if (!tx)
			return true;
		tx->packet.becn = true;
		batch_bytes(batch, tx, reserved, sizeof(reserved));
		r->cnp_owed = false;
		r->cnp_at = batch->now;
	}
	return false;
}

bool responder_has_work(const struct qp *qp, bool delay_ack)
{
	const struct responder *r = &qp->resp;

	return r->response_count || r->owes || responder_owes_ack(r, delay_ack);
}
