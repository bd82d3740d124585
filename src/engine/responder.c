/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/responder.h"

#include "base/trace.h"
#include "engine/cause.h"
#include "engine/complete.h"
#include "engine/completer.h"
#include "engine/engine.h"
#include "engine/kept.h"
#include "engine/message.h"
#include "engine/owed.h"
#include "engine/patience.h"

#define CNP_INTERVAL (50 * USEC)

/* IBTA 9.9.3: the NAK, the status of the receive in progress (if any), the event (if the QP fails). */
static const struct {
	uint8_t nak;
	uint8_t status;
	uint8_t event;
	bool fatal;
} outcome[] = {
	[ACCEPT] = {0},
	[DUPLICATE] = {0},
	[GAP] = {.nak = NAK_SEQUENCE},
	[SILENT] = {0},
	[NOT_READY] = {.nak = SYNDROME_RNR},
	[BAD_REQUEST] = {NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, true},
	[TOO_LONG] = {NAK_INVALID_REQUEST, IBV_WC_LOC_LEN_ERR, IBV_EVENT_QP_REQ_ERR, true},
	[ACCESS_DENIED] = {NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, true},
	[BAD_RECEIVE] = {NAK_REMOTE_OPERATION, IBV_WC_LOC_PROT_ERR, IBV_EVENT_QP_FATAL, true},
	[BAD_INVALIDATE] = {0, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR, true}, /* class J: no NAK */
};

static_assert(ARRAY_SIZE(outcome) == VERDICTS, "every verdict has its outcome");

static_assert(DROP_BY_FAULT == VERDICTS, "it comes behind the reasons of the responder");

static void respond_read(struct qp *qp, const struct packet *p, bool again)
{
	respond(&qp->resp, &(struct response){.kind = RESPOND_READ,
					      .again = again,
					      .psn = p->psn,
					      .rkey = p->rkey,
					      .va = p->va,
					      .left = bytes_asked(p),
					      .mtu = mtu_of(qp, p),
					      .srqn = p->srqn,
					      .msn = qp->resp.msn});
}

static void record_read(struct qp *qp, const struct packet *p)
{
	*next_answer(&qp->resp) = (struct answer_record){
		.psn = p->psn,
		.packets = packets_of(mtu_of(qp, p), bytes_asked(p)),
		.is_read = true,
		.rkey = p->rkey,
		.length = bytes_asked(p),
		.mtu = mtu_of(qp, p),
		.va = p->va,
	};
}

/* Moves the state past the packet. */
static void responder_advance(struct qp *qp, const struct packet *p)
{
	struct responder *r = &qp->resp;
	uint32_t flags = flags_of(p);

	responder_took(r, p, request_span(qp, p), flags);
	qp->req.peer_spoke = true;
	if (flags & IS_READ_LIKE) {
		record_read(qp, p);
		respond_read(qp, p, false);
	}
	message_advance(qp, p);
}

/* 9.7.4.1.1 and 9.7.5.1.4..5: a duplicate SEND or WRITE is acknowledged again, a READ is read again, an atomic is
 * answered with the stored result. The ACK does not cover a READ or atomic that came last: its response may have
 * been lost, and rxe takes an ACK with the PSN of a READ for its end, without data. */
static void duplicate(struct qp *qp, const struct packet *p)
{
	const struct answer_record *a;
	struct responder *r = &qp->resp;
	uint32_t flags = flags_of(p);

	if (flags & IS_READ_LIKE) {
		if (!asks_again(qp, p))
			return;
		kept_begin(qp);
		if (!is_coming(qp, p->psn))
			respond_read(qp, p, true);
		return;
	}
	if (flags & IS_ATOMIC) {
		a = find_answer(r, p->psn, false);
		if (a)
			respond(r, &(struct response){.kind = RESPOND_ATOMIC,
						      .again = true,
						      .psn = p->psn,
						      .value = a->value,
						      .msn = r->msn});
		return;
	}
	r->ack = ACK_URGENT;
}

static bool asks_itself(const struct qp *qp)
{
	return qp->attr.dest_qp_num == qp->base.qp_num &&
	       memcmp(&qp->path.sgid, &qp->path.dgid, sizeof(qp->path.sgid)) == 0;
}

static void responder_refuse(struct qp *qp, const struct packet *p, enum verdict verdict, uint64_t now)
{
	struct responder *r = &qp->resp;

	if (!outcome[verdict].nak && !outcome[verdict].fatal)
		return;
	trace(drop, qp->base.qp_num, p->psn.v, p->opcode,
	      verdict == GAP && p->pieces && psn_equal(p->psn, r->expected) ? DROP_REFERENCE : verdict, 0, 0);
	if (outcome[verdict].nak) {
		r->nak_psn = r->expected;
		responder_refused(r, verdict == GAP ? REFUSED_GAP : REFUSED_OTHER);
	}
	if (verdict == GAP)
		qp_count(qp, HCA_GAPS);
	else
		responder_drop_early(qp);
	if (verdict == NOT_READY)
		qp_count(qp, HCA_NO_RECEIVE);
	if (verdict != NOT_READY)
		r->nak = outcome[verdict].nak;
	else if (patience_begin(qp))
		r->nak = 0;
	else
		starve(qp);
	if (!outcome[verdict].fatal)
		return;
	cause_refusal(qp, p, verdict);
	if (r->has_recv)
		fail_receive(qp, outcome[verdict].status, p);
	/* a failed QP receives no NAK, and would flush the wrong request like the ones after it */
	if (r->nak && asks_itself(qp)) {
		completer_receive(qp, &(struct packet){.opcode = OP_ACKNOWLEDGE, .psn = r->nak_psn, .syndrome = r->nak},
				  now);
		r->nak = 0;
	}
	fail_with_event(qp, outcome[verdict].event);
}

void engine_refuse(struct qp *qp, const struct packet *p, uint8_t syndrome, uint64_t now)
{
	static const struct {
		uint8_t syndrome, verdict;
	} as[] = {
		{NAK_SEQUENCE, GAP},
		{NAK_INVALID_REQUEST, BAD_REQUEST},
		{NAK_REMOTE_ACCESS, ACCESS_DENIED},
		{NAK_REMOTE_OPERATION, BAD_RECEIVE},
	};

	if (check_psn(qp, p) != ACCEPT || !qp_is_receiving(qp))
		return; /* the packet would not be executed either */
	if ((syndrome & SYNDROME_KIND) == SYNDROME_RNR) {
		qp->resp.nak_psn = qp->resp.expected;
		qp->resp.nak = syndrome;
		responder_refused(&qp->resp, REFUSED_OTHER);
		return;
	}
	qp->inject->refuses = true;
	for (size_t i = 0; i < ARRAY_SIZE(as); i++)
		if (as[i].syndrome == syndrome && qp->state != IBV_QPS_ERR)
			responder_refuse(qp, p, as[i].verdict, now);
	qp->inject->refuses = false;
}

/* Keeps a request that comes before its turn, unless another refusal than a gap came first: then the peer sends
 * everything again. */
static void keep_early(struct qp *qp, const struct packet *p, enum verdict verdict)
{
	struct responder *r = &qp->resp;

	if (!r->peer_is_uroce || qp->transport != TRANSPORT_RC || qp->req.lossless)
		return;
	if (verdict != GAP && r->refused != REFUSED_GAP)
		return;
	if (early_keep(&r->early, r->expected, p, request_span(qp, p)))
		r->sack_owed = true;
	else
		r->sack_owed &= r->early != NULL;
}

/* Takes the next request. True: done. */
static bool responder_take(struct qp *qp, const struct packet *p, uint64_t now)
{
	enum verdict verdict = check_sequence(qp, p) ?: check_operation(qp, p) ?: check_srq(qp, p)
			       ?: check_receive(qp, p) ?: check_length(qp, p) ?: check_rkey(qp, p) ?: execute(qp, p);

	if (p->congestion || p->fecn)
		qp->resp.cnp_owed |= now - qp->resp.cnp_at >= CNP_INTERVAL;
	if (verdict == ACCEPT)
		responder_advance(qp, p);
	else
		responder_refuse(qp, p, verdict, now);
	leave_srq(qp);
	return verdict == ACCEPT;
}

/* Takes kept requests behind a gap that may be filled. The peer wants to know soon. */
static void take_early(struct qp *qp, uint64_t now)
{
	struct responder *r = &qp->resp;
	struct packet *p;
	bool taken = true;

	r->ack = ACK_URGENT;
	while (taken && r->early && (p = early_next(&r->early, r->expected))) {
		r->sack_owed = r->early;
		taken = responder_take(qp, p, now);
		early_done(p);
	}
	r->sack_owed &= r->early != NULL;
}

void responder_receive(struct qp *qp, const struct packet *p, uint64_t now)
{
	enum verdict verdict = check_psn(qp, p);

	if (verdict == DUPLICATE) {
		qp_count(qp, HCA_DUPLICATES);
		cause_repeated(qp, p);
		duplicate(qp, p);
	} else if (verdict == ACCEPT) {
		if (responder_take(qp, p, now) && unlikely(qp->resp.early))
			take_early(qp, now);
	} else {
		keep_early(qp, p, verdict);
		responder_refuse(qp, p, verdict, now);
	}
}
