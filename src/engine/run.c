/* SPDX-License-Identifier: BSD-2-Clause */
/* engine_run(), where all packets are made, and the deadlines of a QP. Received packets: receive.c. */

#include <string.h>

#include "engine/checks.h"
#include "engine/complete.h"
#include "engine/cursor.h"
#include "engine/engine.h"
#include "engine/flow.h"
#include "engine/patience.h"
#include "engine/request.h"
#include "engine/requester.h"
#include "engine/responder.h"
#include "engine/retry.h"
#include "engine/timers.h"
#include "engine/unreliable.h"

void engine_resume(struct qp *qp, psn_t psn, uint32_t msn)
{
	struct responder *r = &qp->resp;

	r->expected = psn;
	r->ack_psn = psn_add(psn, -1u);
	r->msn = msn;
	r->inbound = INBOUND_NONE;
	r->refused = REFUSED_NONE;
	r->nak = 0;
}

bool engine_rests(const struct qp *qp)
{
	const struct responder *r = &qp->resp;

	/* not after a NAK either: packets that it requested may be for the process to which the responder moves */
	return r->inbound == INBOUND_NONE && !r->response_count && !r->nak;
}

void engine_fail_with(struct qp *qp, enum ibv_event_type event)
{
	if (qp->state != IBV_QPS_ERR)
		fail_with_event(qp, event);
}

static const struct packet ack_alone = {.opcode = OP_ACKNOWLEDGE};

/* True if these packets and an ACK can be one train that ends with the ACK: then the receiver reads the ACK first
 * (link/udp_receive.c). */
static bool make_a_train(const struct tx *tx, uint32_t count, uint32_t ack)
{
	uint32_t bytes = packet_bytes(&tx->packet);
	bool equal = true;

	for (uint32_t i = 1; i < count; i++)
		equal &= packet_bytes(&tx[i].packet) == bytes;
	return equal && bytes >= ack && count < BATCH_TRAINS && count * bytes <= TRAIN;
}

/* Puts the ACK first, unless the order is known not to matter: as with adapters, the peer must not see later requests
 * of this end before the ACK of packets received before. */
static void put_ack_first(const struct qp *qp, struct tx_batch *batch, uint32_t first, uint32_t ack)
{
	struct tx *tx = &batch->tx[first], last;

	if (ack == first || qp->answers_first || make_a_train(tx, ack - first, packet_bytes(&batch->tx[ack].packet)))
		return;
	last = batch->tx[ack];
	memmove(tx + 1, tx, (ack - first) * sizeof(*tx));
	*tx = last;
}

bool engine_run(struct qp *qp, struct tx_batch *batch)
{
	bool more, delay = batch->delay_ack;
	uint32_t first, ack;

	batch->full = false;
	if (unlikely(!is_reliable(qp))) {
		more = unreliable_run(qp, batch);
		settle_overrun(qp);
		settle_drain(qp);
		return more && (!batch->full || batch->packets);
	}
	more = responder_run(qp, batch);
	first = batch->packets;
	more = requester_run(qp, batch) || more;
	ack = batch->packets;
	/* an ACK that may wait leaves now if it costs no datagram of its own */
	if (qp->answers_first && ack > first && make_a_train(&batch->tx[first], ack - first, packet_bytes(&ack_alone)))
		batch->delay_ack = false;
	more = responder_acknowledge(qp, batch) || more;
	batch->delay_ack = delay;
	if (batch->packets > ack)
		put_ack_first(qp, batch, first, ack);
	settle_overrun(qp);
	return more && !batch->full;
}

void engine_unreadable(struct qp *qp, const struct tx *tx)
{
	if (qp->state == IBV_QPS_ERR)
		return;
	if (opcode_info[tx->packet.opcode].flags & IS_REQUEST)
		requester_unreadable(qp, tx->position);
	else
		responder_unreadable(qp, tx->packet.psn);
	settle_overrun(qp);
}

bool engine_has_work(const struct qp *qp, bool delay_ack)
{
	return is_reliable(qp) ? responder_has_work(qp, delay_ack) || requester_can_run(qp) : unreliable_can_run(qp);
}

void engine_expire(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;

	patience_expire(qp, now);
	if (now >= flow_deadline(qp))
		r->held = NULL; /* the next run asks again, or waits no longer */
	if (r->pause && now >= r->pause_until)
		r->pause = PAUSE_NONE;
	retry_expire(qp, now);
}

uint64_t engine_deadline(const struct qp *qp)
{
	const struct requester *r = &qp->req;
	uint64_t when = is_waiting(r) ? min_of(r->timeout_at, r->probe_at) : NEVER;

	if (unlikely(r->held))
		return flow_deadline(qp);
	if (unlikely(qp->resp.look_at))
		when = min_of(when, qp->resp.look_at);
	return r->pause ? min_of(when, r->pause_until) : when;
}

bool engine_expects_success(const struct qp *qp)
{
	const struct requester *r = &qp->req;

	return is_reliable(qp) && (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
	       !psn_equal(r->una, r->high) && r->pause != PAUSE_RNR && r->retries == qp->attr.retry_cnt;
}
