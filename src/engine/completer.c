/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/completer.h"

#include "base/trace.h"
#include "engine/complete.h"
#include "engine/reassembly.h"
#include "engine/retry.h"
#include "engine/scoreboard.h"
#include "engine/timers.h"

/* The status that a NAK gives to the request it names. Sequence errors are retried, so they have no entry. */
static const uint8_t nak_status[32] = {
	[NAK_INVALID_REQUEST & SYNDROME_VALUE] = IBV_WC_REM_INV_REQ_ERR,
	[NAK_REMOTE_ACCESS & SYNDROME_VALUE] = IBV_WC_REM_ACCESS_ERR,
	[NAK_REMOTE_OPERATION & SYNDROME_VALUE] = IBV_WC_REM_OP_ERR,
	[NAK_INVALID_RD_REQUEST & SYNDROME_VALUE] = IBV_WC_REM_INV_RD_REQ_ERR,
};

/* `count` packets of the WQE at the head are acknowledged. */
static void acknowledge_head(struct qp *qp, struct wqe *w, uint32_t count)
{
	struct requester *r = &qp->req;
	uint32_t charge = wqe_charge(qp, w, r->acked, r->acked + count);
	bool behind = requester_acknowledged(r, count, charge);

	r->acked += count;
	while (r->rd_count && psn_diff(r->rd_last[r->rd_head], r->una) < 0) {
		r->rd_head = (r->rd_head + 1) % HCA_MAX_RD_ATOMIC;
		r->rd_count--;
	}
	if (behind) {
		r->next = r->una;
		r->wqe = qp->sq.head;
		r->packet = r->acked;
	}
	if (r->acked == w->packets) {
		complete_head(qp, IBV_WC_SUCCESS); /* advances the head */
		complete_local(qp);
		if (behind) {
			r->wqe = qp->sq.head;
			r->packet = 0;
		}
	}
}

/* Acknowledges everything before una + count, except READs and atomics, which need their response. False: a response
 * was lost. */
static bool completer_acknowledge(struct qp *qp, uint32_t count, uint64_t now)
{
	bool progress = false;

	while (count) {
		struct wqe *w = sq_at(&qp->sq, qp->sq.head);
		uint32_t n = min_of(count, w->packets - qp->req.acked);

		if (wqe_wants_response(w))
			break;
		acknowledge_head(qp, w, n);
		count -= n;
		progress = true;
	}
	if (progress)
		note_progress(qp, now);
	return count == 0;
}

void completer_settle(struct qp *qp)
{
	struct wqe *w = sq_at(&qp->sq, qp->sq.head);

	if (qp->state == IBV_QPS_ERR || qp->sq.head == qp->sq.tail)
		return;
	if (w->state == WQE_ERROR && !settles_first(qp))
		fail_head(qp, w->status);
}

void engine_settled(struct qp *qp)
{
	if (!qp->rq.settling) /* another thread was first */
		return;
	qp->rq.settling = false;
	if (qp->state == IBV_QPS_ERR) {
		flush(qp);
		srq_is_left(qp);
	} else {
		completer_settle(qp);
	}
}

/* Requests a missing response again from there, once for each gap. Responses that were in flight at that time arrive
 * after the gap and look like another one, so no gap is handled for one round trip. */
static void completer_ask_again(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;

	if (r->gap_seen || r->pause == PAUSE_RNR || now < r->hole_until)
		return;
	reassembly_begin(qp);
	note_loss(qp, false);
	go_back(qp, r->una, RETRY_GAP);
	note_hole(r, now);
	r->gap_seen = true;
}

/* Handles one missing packet; the peer keeps later ones. */
static void missing_one(struct qp *qp, psn_t psn)
{
	qp->req.gap_seen = true;
	if (scoreboard_missing(qp, psn))
		note_loss(qp, false);
}

/* The first of identical NAKs makes the requester go back; copies that the network made do not. On links that lose
 * nothing, it says that the peer could not fetch the memory to which the packet referred. */
static void sequence_nak(struct qp *qp, psn_t psn, bool progress)
{
	qp_count(qp, HCA_SEQUENCE_NAKS);
	if (qp->req.lossless && !qp->req.plain)
		qp->req.plain = true;
	else if (!progress && (qp->req.gap_seen || (!qp->req.board && !spend_retry(qp))))
		return;
	if (qp->req.board && board_follow(qp->req.board, &qp->req)) {
		missing_one(qp, psn);
		return;
	}
	note_loss(qp, false);
	go_back(qp, psn, RETRY_NAK);
	qp->req.gap_seen = true;
}

/* Notes an answer to a packet that was never sent, and no answer to those sent: the ends may not agree on the first
 * PSN. */
static __attribute__((cold)) void note_stray(struct qp *qp, psn_t expected)
{
	qp->strays = qp->req.una.v == qp->attr.sq_psn;
	qp->stray = expected;
}

static void receive_ack(struct qp *qp, psn_t psn, uint8_t syndrome, uint64_t now)
{
	struct requester *r = &qp->req;
	int32_t sent = psn_diff(r->high, r->una), ahead = psn_diff(psn, r->una);
	uint8_t kind = syndrome & SYNDROME_KIND;
	enum ibv_wc_status status = nak_status[syndrome & SYNDROME_VALUE];

	if (kind == SYNDROME_ACK)
		ahead++; /* an ACK covers its PSN, a NAK only those before */
	if (ahead < 0 || ahead > sent || (kind == SYNDROME_ACK && ahead == 0) ||
	    (kind != SYNDROME_ACK && ahead == sent)) { /* old, or for a packet that was never sent */
		if (ahead < 0 || ahead > sent)
			note_stray(qp, psn_add(psn, kind == SYNDROME_ACK));
		return;
	}
	if (!completer_acknowledge(qp, (uint32_t)ahead, now)) {
		if ((kind != SYNDROME_ACK && syndrome != NAK_SEQUENCE) ||
		    !reassembly_told(qp, psn_add(psn, kind == SYNDROME_ACK), now))
			completer_ask_again(qp, now);
		else if (syndrome == NAK_SEQUENCE)
			sequence_nak(qp, psn, false);
		return;
	}
	if (kind == SYNDROME_RNR)
		wait_for_receiver(qp, psn, syndrome, now);
	else if (syndrome == NAK_AGAIN && r->lossless)
		go_back(qp, psn, RETRY_RNR);
	else if (syndrome == NAK_SEQUENCE)
		sequence_nak(qp, psn, ahead > 0);
	else if (kind == SYNDROME_NAK && status)
		fail_head(qp, status);
}

/* Writes the data of a response to the local SGEs. Returns the status that ends the request if it cannot. */
static enum ibv_wc_status take_response(struct qp *qp, struct wqe *w, const struct packet *p)
{
	const struct opcode_info *info = &opcode_info[p->opcode];
	uint64_t offset = (uint64_t)qp->req.acked * qp->req.mtu;
	bool last = qp->req.acked + 1 == w->packets;
	const void *bytes = p->payload;
	uint32_t length = p->length;

	if ((info->flags & HAS_AETH) && (p->syndrome & SYNDROME_KIND) != SYNDROME_ACK)
		return IBV_WC_BAD_RESP_ERR;
	if (w->opcode == IBV_WR_ATOMIC_WRITE)
		return (info->flags & IS_READ) && (info->flags & IS_FIRST) && (info->flags & IS_LAST) && !length
			       ? IBV_WC_SUCCESS
			       : IBV_WC_BAD_RESP_ERR;
	if (!(info->flags & IS_READ) != (w->opcode != IBV_WR_RDMA_READ))
		return IBV_WC_BAD_RESP_ERR;
	if (info->flags & IS_ATOMIC) {
		bytes = &p->original;
		length = sizeof(p->original);
	} else if (length != min_of((uint64_t)qp->req.mtu, w->length - offset) || (last && !(info->flags & IS_LAST))) {
		return IBV_WC_BAD_RESP_ERR;
	}
	trace(execute, qp->base.qp_num, p->psn.v, p->opcode, offset, length, 0);
	if (!sge_scatter(qp->hca, qp->pd, w->sge, w->num_sge, offset, bytes, length))
		return IBV_WC_LOC_PROT_ERR;
	return IBV_WC_SUCCESS;
}

/* Takes the next expected response. */
static void take_next_response(struct qp *qp, const struct packet *p, uint64_t now)
{
	struct wqe *w = sq_at(&qp->sq, qp->sq.head);
	enum ibv_wc_status status;

	status = wqe_wants_response(w) ? take_response(qp, w, p) : IBV_WC_BAD_RESP_ERR;
	if (status != IBV_WC_SUCCESS) {
		fail_head(qp, status);
		return;
	}
	acknowledge_head(qp, w, 1);
	note_progress(qp, now);
}

/* The next expected response, if it is kept; the caller owns it. NULL: none. */
static struct packet *next_kept(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;
	struct reassembly *m = r->reads;
	psn_t first;

	if (likely(!m))
		return NULL;
	reassembly_settle(r);
	if (psn_diff(m->told, r->una) > 0)
		completer_acknowledge(qp, (uint32_t)psn_diff(m->told, r->una), now);
	if (qp->state == IBV_QPS_ERR)
		return NULL;
	if (!early_first(r->answers, r->una, &first) ||
	    !completer_acknowledge(qp, (uint32_t)psn_diff(first, r->una), now)) {
		reassembly_look(qp);
		return NULL;
	}
	return qp->state == IBV_QPS_ERR ? NULL : early_next(&r->answers, first);
}

static void receive_response(struct qp *qp, const struct packet *p, uint64_t now)
{
	struct requester *r = &qp->req;
	int32_t sent = psn_diff(r->high, r->una), ahead = psn_diff(p->psn, r->una);
	struct packet *kept;

	if (ahead < 0 || ahead >= sent)
		return;
	/* a response acknowledges all before it, and must be the next that is missing */
	if (!completer_acknowledge(qp, (uint32_t)ahead, now)) {
		if (!reassembly_keep(qp, p, now))
			completer_ask_again(qp, now);
		return;
	}
	if (qp->state == IBV_QPS_ERR)
		return;
	take_next_response(qp, p, now);
	while (qp->state != IBV_QPS_ERR && (kept = next_kept(qp, now))) {
		take_next_response(qp, kept, now);
		early_done(kept);
	}
}

void completer_answered_again(struct qp *qp, const struct packet *p, uint64_t now)
{
	struct packet response;

	trace(acknowledged, qp->base.qp_num, p->psn.v, SYNDROME_ACK, 0, p->opcode, 0);
	if (reassembly_answered(qp, p, &response, now))
		receive_response(qp, &response, now);
	completer_settle(qp);
}

/* Takes the peer's report of packets received out of order. */
void completer_selective(struct qp *qp, const struct packet *p, uint64_t now)
{
	struct requester *r = &qp->req;
	int32_t sent = psn_diff(r->high, r->una), ahead = psn_diff(p->psn, r->una);
	struct sack sack;

	if (r->lossless || ahead < 0 || ahead > sent || !sack_parse(&sack, p->payload, p->length))
		return; /* old, or not from the peer */
	trace(acknowledged, qp->base.qp_num, p->psn.v, SYNDROME_NAK, 0, p->opcode, 0);
	/* False: the response to a READ is missing. It may be on its way, and if not, an ACK or a NAK will tell. */
	completer_acknowledge(qp, (uint32_t)ahead, now);
	completer_settle(qp);
	if (qp->state != IBV_QPS_ERR)
		scoreboard_told(qp, p->psn, &sack, now);
}

void completer_congested(struct qp *qp, psn_t psn)
{
	if (!qp->resp.peer_is_uroce || psn_is_between(psn, qp->req.una, psn_add(qp->req.high, 1)))
		note_loss(qp, false);
}

void completer_receive(struct qp *qp, const struct packet *p, uint64_t now)
{
	trace(acknowledged, qp->base.qp_num, p->psn.v, p->syndrome, p->msn, p->opcode, 0);
	if (OPERATION(p->opcode) == OP_ACKNOWLEDGE)
		receive_ack(qp, p->psn, p->syndrome, now);
	else
		receive_response(qp, p, now);
	completer_settle(qp);
}
