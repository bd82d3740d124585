/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder: request packets -> memory, receives and responses (IBTA 9.7.4, 9.7.5). Each rule is one
 * function, in the specification's order; outcome[] says what each verdict causes. */
#include "engine/reassembly.h"

#include <errno.h>
#include <stdlib.h>

#include "base/trace.h"
#include "memory/copy.h"
#include "object/window.h"
#include "wire/sack.h"

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

static uint32_t flags_of(const struct packet *p)
{
	return opcode_info[p->opcode].flags;
}

/* Bytes in a full packet of the link that this one came by. */
static uint32_t mtu_of(const struct qp *qp, const struct packet *p)
{
	return p->mtu ?: qp->mtu;
}

/* Requests that READ responses answer, and the number of bytes that these carry. */
#define IS_READ_LIKE (IS_READ | IS_ATOMIC_WRITE)

static uint32_t bytes_asked(const struct packet *p)
{
	return flags_of(p) & IS_ATOMIC_WRITE ? 0 : p->dma_length;
}

/* Requests whose duplicates are compared with a record, at whatever PSN: a READ takes up to 2^23 PSNs. */
static bool is_recorded(const struct packet *p)
{
	return flags_of(p) & (IS_READ_LIKE | IS_ATOMIC);
}

/* PSNs that a request takes: the number of packets for the data that it asks for or refers to. */
static uint32_t responder_span_of(const struct qp *qp, const struct packet *p)
{
	if (flags_of(p) & IS_READ)
		return packets_of(mtu_of(qp, p), p->dma_length);
	return p->pieces ? packets_of(mtu_of(qp, p), p->length) : 1;
}

/* 9.7.4.1.1. A PSN so far off that no peer has reached it is a stranger's, who guesses, and gets no answer. Before the
 * first packet has come in order, the answer tells a peer that begins with another PSN. */
static enum verdict check_psn(const struct qp *qp, const struct packet *p)
{
	int32_t ahead = psn_diff(p->psn, qp->resp.expected);

	if (likely(ahead == 0))
		return ACCEPT;
	if (!psn_is_near(ahead) && qp->resp.expected.v != qp->attr.rq_psn && !(ahead < 0 && is_recorded(p)))
		return SILENT;
	return ahead < 0 ? DUPLICATE : qp->resp.nak_sent ? SILENT : GAP;
}

/* 9.7.4.1.2: first, middle and last come in that order, and are of one kind */
enum verdict check_sequence(const struct qp *qp, const struct packet *p)
{
	static const uint32_t kind[] = {
		[INBOUND_NONE] = 0,
		[INBOUND_SEND] = IS_SEND,
		[INBOUND_WRITE] = IS_WRITE,
	};
	uint32_t flags = flags_of(p), inside = kind[qp->resp.inbound];

	if (!inside)
		return flags & IS_FIRST ? ACCEPT : BAD_REQUEST;
	return (flags & inside) && !(flags & IS_FIRST) ? ACCEPT : BAD_REQUEST;
}

static struct response *response_at(struct responder *r, uint32_t i)
{
	return &r->responses[(r->response_head + i) % r->response_size];
}

/* A peer never has more requests outstanding than there are entries, but the network may repeat an old request at
 * any time. Responses to such duplicates give way. */
static bool make_room(struct responder *r)
{
	uint32_t i = 0;

	if (r->response_count < r->response_size)
		return true;
	while (i < r->response_count && !response_at(r, i)->again)
		i++;
	if (i == r->response_count)
		return false;
	for (r->response_count--; i < r->response_count; i++)
		*response_at(r, i) = *response_at(r, i + 1);
	return true;
}

/* 9.7.4.1.3: what the QP allows, and whether there is an entry for the response */
enum verdict check_operation(struct qp *qp, const struct packet *p)
{
	uint32_t flags = flags_of(p);
	unsigned need = flags & (IS_WRITE | IS_ATOMIC_WRITE) ? IBV_ACCESS_REMOTE_WRITE
			: flags & IS_READ		     ? IBV_ACCESS_REMOTE_READ
			: flags & IS_ATOMIC		     ? IBV_ACCESS_REMOTE_ATOMIC
							     : 0;

	if ((qp->attr.qp_access_flags & need) != need)
		return BAD_REQUEST;
	if ((flags & (IS_READ_LIKE | IS_ATOMIC)) && !make_room(&qp->resp))
		return BAD_REQUEST;
	if ((flags & (IS_ATOMIC | IS_ATOMIC_WRITE)) && (p->va & 7))
		return BAD_REQUEST;
	return ACCEPT;
}

/* A14, XRC: the SRQ that every packet names must exist, in the QP's domain, and be the same for all packets of a
 * message. leave_srq() ends its use. */
static enum verdict check_srq(struct qp *qp, const struct packet *p)
{
	struct xrc *x = qp->xrc;

	if (likely(!is_xrc_target(qp)))
		return ACCEPT;
	if (!(flags_of(p) & IS_FIRST) && p->srqn != x->srqn)
		return BAD_REQUEST;
	x->srqn = p->srqn;
	x->srq = srq_enter(qp->hca, p->srqn, &x->domain);
	return x->srq ? ACCEPT : BAD_REQUEST;
}

static void leave_srq(struct qp *qp)
{
	struct srq *srq = xrc_srq(qp);

	if (likely(!srq))
		return;
	srq_leave(srq);
	qp->xrc->srq = NULL;
}

/* 9.7.4.1.4: the first packet of a SEND takes a receive, or the last one of a WRITE with immediate */
enum verdict check_receive(struct qp *qp, const struct packet *p)
{
	struct responder *r = &qp->resp;
	uint32_t flags = flags_of(p);
	bool needs = ((flags & IS_SEND) && (flags & IS_FIRST)) || ((flags & IS_WRITE) && (flags & HAS_IMM));

	if (!needs || r->has_recv)
		return ACCEPT;
	return take_receive(qp, p) ? ACCEPT : NOT_READY;
}

/* 9.7.4.1.6: all packets except the last are full; a message is as long as announced, and no longer than its
 * receive */
enum verdict check_length(const struct qp *qp, const struct packet *p)
{
	const struct responder *r = &qp->resp;
	uint32_t flags = flags_of(p);
	uint32_t before = flags & IS_FIRST ? 0 : r->received;
	uint64_t full = (uint64_t)responder_span_of(qp, p) * mtu_of(qp, p);

	if (flags & IS_ATOMIC_WRITE)
		return p->length == sizeof(uint64_t) && p->dma_length == p->length ? ACCEPT : BAD_REQUEST;
	if (!(flags & (IS_SEND | IS_WRITE)))
		return p->dma_length > HCA_MAX_MESSAGE && (flags & IS_READ) ? BAD_REQUEST : ACCEPT;
	if (flags & IS_LAST ? p->length > full : p->length != full)
		return BAD_REQUEST;
	if ((flags & IS_LAST) && !(flags & IS_FIRST) && p->length == 0)
		return BAD_REQUEST;
	if (flags & IS_WRITE) {
		uint32_t left = flags & IS_FIRST ? p->dma_length : r->write_left;

		if (left > HCA_MAX_MESSAGE || (flags & IS_LAST ? p->length != left : p->length >= left))
			return BAD_REQUEST;
		return ACCEPT;
	}
	return (uint64_t)before + p->length > r->recv->length ? TOO_LONG : ACCEPT;
}

struct mr *remote_region(const struct qp *qp, uint32_t rkey, uint64_t va, uint64_t length, unsigned access, char **at)
{
	struct mr *mr = mr_get(qp->hca, rkey);

	if (mr && !mr_allows(mr, target_pd(qp), va, length, access)) {
		mr_put(mr);
		return NULL;
	}
	if (!mr)
		return NULL;
	*at = mr_at(mr, va);
	return unlikely(mr->type) ? window_enter(mr, qp->serial) : mr;
}

static bool remote_allowed(const struct qp *qp, uint32_t rkey, uint64_t va, uint64_t length, unsigned access)
{
	char *at;
	struct mr *mr = remote_region(qp, rkey, va, length, access, &at);

	if (mr)
		mr_put(mr);
	return mr;
}

/* 9.7.4.1.5: the R_Key of an empty access is not checked */
enum verdict check_rkey(const struct qp *qp, const struct packet *p)
{
	uint32_t flags = flags_of(p);
	uint64_t length = flags & IS_ATOMIC ? sizeof(uint64_t) : p->dma_length;
	unsigned access = flags & IS_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC
			  : flags & IS_READ ? IBV_ACCESS_REMOTE_READ
					    : IBV_ACCESS_REMOTE_WRITE;

	if (!(flags & (HAS_RETH | HAS_ATOMICETH)) || length == 0)
		return ACCEPT;
	return remote_allowed(qp, p->rkey, p->va, length, access) ? ACCEPT : ACCESS_DENIED;
}

/* Appends a response. A response to a duplicate request replaces all that wait from its PSN on: the peer has gone
 * back to it and will send the others again. */
static void respond(struct responder *r, const struct response *response)
{
	while (r->response_count && psn_diff(response_at(r, r->response_count - 1)->psn, response->psn) >= 0)
		r->response_count--;
	if (make_room(r))
		*response_at(r, r->response_count++) = *response;
}

/* Whether a waiting READ response will reach this PSN. A second one would change nothing, and take the entry of
 * another. */
static bool is_coming(struct qp *qp, psn_t psn)
{
	struct responder *r = &qp->resp;

	for (uint32_t i = 0; i < r->response_count; i++) {
		const struct response *s = response_at(r, i);

		if (s->kind == RESPOND_READ && psn_diff(psn, s->psn) >= 0 &&
		    psn_diff(psn, psn_add(s->psn, packets_of(s->mtu, s->left))) < 0)
			return true;
	}
	return false;
}

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

static enum verdict execute_send(struct qp *qp, const struct packet *p)
{
	struct responder *r = &qp->resp;

	if (flags_of(p) & IS_FIRST)
		r->received = 0;
	if (unlikely(p->pieces)) {
		if (!onesided_fetch(qp, p))
			return GAP;
	} else if (!sge_scatter(qp->hca, receive_pd(qp), r->recv->sge, r->recv->num_sge, r->received, p->payload,
				p->length)) {
		return BAD_RECEIVE;
	}
	if ((flags_of(p) & HAS_IETH) && !window_invalidate(qp->hca, target_pd(qp), qp->serial, p->inv_rkey))
		return BAD_INVALIDATE;
	trace(execute, qp->base.qp_num, p->psn.v, p->opcode, r->received, p->length, 0);
	r->received += p->length;
	return ACCEPT;
}

static enum verdict execute_write(struct qp *qp, const struct packet *p)
{
	struct responder *r = &qp->resp;
	struct mr *mr;
	char *at;
	bool ok;

	if (flags_of(p) & IS_FIRST) {
		r->received = 0;
		r->write_va = p->va;
		r->write_rkey = p->rkey;
		r->write_left = p->dma_length;
	}
	if (p->length) {
		mr = remote_region(qp, r->write_rkey, r->write_va, p->length, IBV_ACCESS_REMOTE_WRITE, &at);
		if (!mr) /* the region was there when the message began */
			return ACCESS_DENIED;
		ok = unlikely(p->pieces) ? onesided_fetch_to(qp, p, mr, at) : mr_write(mr, at, p->payload, p->length);
		mr_put(mr);
		if (!ok)
			return p->pieces ? GAP : ACCESS_DENIED;
	}
	trace(execute, qp->base.qp_num, p->psn.v, p->opcode, r->write_va, p->length, 0);
	r->write_va += p->length;
	r->write_left -= p->length;
	r->received += p->length;
	return ACCEPT;
}

/* The peer waits for no more answers than are kept. */
static struct answer_record *next_answer(struct responder *r)
{
	uint32_t slots = r->answer_slots, next = r->answer_next++;
	struct answer_record *done = &r->answers[(next + slots - r->response_size) % slots],
			     *free = &r->answers[next % slots];

	if (unlikely(r->repairs)) {
		kept_read_free(done->kept);
		done->kept = NULL;
		kept_read_free(free->kept);
	}
	return free;
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

static enum verdict execute_atomic(struct qp *qp, const struct packet *p)
{
	struct responder *r = &qp->resp;
	char *at;
	struct mr *mr = remote_region(qp, p->rkey, p->va, sizeof(uint64_t), IBV_ACCESS_REMOTE_ATOMIC, &at);
	struct memory_atomic access = {
		.at = at,
		.is_add = OPERATION(p->opcode) == OP_FETCH_ADD,
		.compare = p->compare,
		.swap_add = p->swap_add,
	};
	bool ok;

	if (!mr)
		return ACCESS_DENIED;
	ok = mr_atomic(mr, &access);
	mr_put(mr);
	if (!ok)
		return ACCESS_DENIED;
	*next_answer(r) = (struct answer_record){.psn = p->psn, .packets = 1, .value = access.before};
	trace(execute, qp->base.qp_num, p->psn.v, p->opcode, p->va, sizeof(uint64_t), 0);
	respond(r,
		&(struct response){
			.kind = RESPOND_ATOMIC, .psn = p->psn, .value = access.before, .msn = (r->msn + 1) & PSN_MASK});
	return ACCEPT;
}

/* A19: aligned, so mr_write() stores all bytes at once. A duplicate is answered, but not executed again. */
static enum verdict execute_atomic_write(struct qp *qp, const struct packet *p)
{
	char *at;
	struct mr *mr = remote_region(qp, p->rkey, p->va, p->length, IBV_ACCESS_REMOTE_WRITE, &at);
	bool ok;

	if (!mr)
		return ACCESS_DENIED;
	ok = mr_write(mr, at, p->payload, p->length);
	mr_put(mr);
	trace(execute, qp->base.qp_num, p->psn.v, p->opcode, p->va, p->length, 0);
	return ok ? ACCEPT : ACCESS_DENIED;
}

enum verdict execute(struct qp *qp, const struct packet *p)
{
	uint32_t flags = flags_of(p);

	if (flags & IS_SEND)
		return execute_send(qp, p);
	if (flags & IS_WRITE)
		return execute_write(qp, p);
	if (flags & IS_ATOMIC)
		return execute_atomic(qp, p);
	if (flags & IS_ATOMIC_WRITE)
		return execute_atomic_write(qp, p);
	return ACCEPT; /* a READ is executed when its responses are made */
}

void message_advance(struct qp *qp, const struct packet *p)
{
	uint32_t flags = flags_of(p);

	qp->resp.inbound = flags & IS_LAST ? INBOUND_NONE : flags & IS_SEND ? INBOUND_SEND : INBOUND_WRITE;
	if ((flags & IS_LAST) && ((flags & IS_SEND) || ((flags & IS_WRITE) && (flags & HAS_IMM))))
		complete_receive(qp, p);
}

/* Moves the state past the packet. */
static void responder_advance(struct qp *qp, const struct packet *p)
{
	struct responder *r = &qp->resp;
	uint32_t flags = flags_of(p);

	responder_took(r, p, responder_span_of(qp, p), flags);
	qp->req.peer_spoke = true;
	if (flags & IS_READ_LIKE) {
		record_read(qp, p);
		respond_read(qp, p, false);
	}
	message_advance(qp, p);
}

/* Looks first at the one that is being answered. */
struct answer_record *find_answer(const struct responder *r, psn_t psn, bool is_read)
{
	uint32_t slots = r->answer_slots, at = slots ? (r->answer_next + slots - r->response_count) % slots : 0;

	for (uint32_t i = 0; i < slots; i++) {
		struct answer_record *a = &r->answers[at];

		if (a->packets && a->is_read == is_read && psn_diff(psn, a->psn) >= 0 &&
		    psn_diff(psn, a->psn) < (int32_t)a->packets)
			return a;
		at = at + 1 == slots ? 0 : at + 1;
	}
	return NULL;
}

bool asks_again(const struct qp *qp, const struct packet *p)
{
	const struct answer_record *a = find_answer(&qp->resp, p->psn, true);
	uint64_t skipped = a ? (uint64_t)(uint32_t)psn_diff(p->psn, a->psn) * a->mtu : 0;

	return a && p->rkey == a->rkey && p->va == a->va + skipped && skipped + bytes_asked(p) <= a->length;
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

void starve(struct qp *qp)
{
	qp->resp.nak = SYNDROME_RNR | (qp->attr.min_rnr_timer & SYNDROME_VALUE);
	cause_starves(qp);
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
	trace(drop, qp->base.qp_num, p->psn.v, p->opcode, verdict, 0, 0);
	if (outcome[verdict].nak) {
		r->nak_psn = r->expected;
		r->nak_sent = true;
	}
	if (verdict == GAP) {
		qp_count(qp, HCA_GAPS);
		r->gap = r->expected;
		r->gap_open = true;
	} else {
		responder_drop_early(qp);
	}
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
		return; /* it would not be executed either */
	if (p->acknowledges && qp->state != IBV_QPS_RTR)
		completer_acknowledged(qp, p->acknowledged, now);
	if ((syndrome & SYNDROME_KIND) == SYNDROME_RNR) {
		qp->resp.nak_psn = qp->resp.expected;
		qp->resp.nak = syndrome;
		qp->resp.nak_sent = true;
		return;
	}
	qp->inject->refuses = true;
	for (size_t i = 0; i < ARRAY_SIZE(as); i++)
		if (as[i].syndrome == syndrome && qp->state != IBV_QPS_ERR)
			responder_refuse(qp, p, as[i].verdict, now);
	qp->inject->refuses = false;
}

/* A request comes before its turn. Nothing is kept after another refusal than a gap: then the peer sends everything
 * again. */
static void keep_early(struct qp *qp, const struct packet *p, enum verdict verdict)
{
	struct responder *r = &qp->resp;

	if (!r->peer_is_uroce || qp->transport != TRANSPORT_RC || qp->req.lossless)
		return;
	if (verdict != GAP && !(r->gap_open && psn_equal(r->gap, r->expected)))
		return;
	if (early_keep(&r->early, r->expected, p, responder_span_of(qp, p)))
		r->holds_early = r->sack_owed = true;
}

void responder_drop_early(struct qp *qp)
{
	struct responder *r = &qp->resp;

	if (r->holds_early)
		early_clear(r->early);
	r->holds_early = r->sack_owed = r->gap_open = false;
}

/* The request whose turn it is. True: it is done. */
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

/* A gap may be filled: what waited behind it follows. The peer wants to know soon. */
static void take_early(struct qp *qp, uint64_t now)
{
	struct responder *r = &qp->resp;
	struct packet *p;
	bool taken = true;

	r->ack = ACK_URGENT;
	while (taken && r->holds_early && (p = early_next(r->early, r->expected))) {
		r->holds_early = r->sack_owed = early_count(r->early);
		taken = responder_take(qp, p, now);
		early_done(p);
	}
}

void responder_receive(struct qp *qp, const struct packet *p, uint64_t now)
{
	enum verdict verdict = check_psn(qp, p);

	if (verdict == DUPLICATE) {
		qp_count(qp, HCA_DUPLICATES);
		duplicate(qp, p);
	} else if (verdict == ACCEPT) {
		if (responder_take(qp, p, now) && unlikely(qp->resp.holds_early))
			take_early(qp, now);
	} else {
		keep_early(qp, p, verdict);
		responder_refuse(qp, p, verdict, now);
	}
}

/* The region of a READ, if it may still be read. */
static struct mr *read_region(struct qp *qp, const struct response *s, uint32_t length, char **at)
{
	struct mr *mr;

	if (is_xrc_target(qp)) {
		qp->xrc->srq = srq_enter(qp->hca, s->srqn, &qp->xrc->domain);
		if (!qp->xrc->srq)
			return NULL;
	}
	mr = remote_region(qp, s->rkey, s->va, length, IBV_ACCESS_REMOTE_READ, at);
	leave_srq(qp);
	return mr;
}

void responder_unreadable(struct qp *qp, psn_t psn)
{
	if (qp->resp.response_count) {
		const struct response *s = response_at(&qp->resp, 0);

		cause_access(qp, s->rkey, s->va, s->left, IBV_ACCESS_REMOTE_READ);
	}
	qp->resp.nak = NAK_REMOTE_ACCESS;
	qp->resp.nak_psn = psn;
	qp->resp.nak_sent = true;
	fail_with_event(qp, IBV_EVENT_QP_ACCESS_ERR);
}

/* A response acknowledges all requests up to its own. */
static void retire_response(struct responder *r, const struct response *s)
{
	psn_t end = s->kind == RESPOND_ATOMIC ? psn_add(s->psn, 1) : s->psn;

	r->response_head = (r->response_head + 1) % r->response_size;
	r->response_count--;
	if (psn_equal(end, r->expected))
		responder_owes_nothing(r);
}

/* The region is gone. For a READ that has been answered before this is no reason to fail the QP: the duplicate may have
 * come late, after ibv_dereg_mr(3). A peer that still waits for the data gets the NAK; any other ignores it. */
static bool read_failed(struct qp *qp, const struct response *s)
{
	if (!s->again) {
		responder_unreadable(qp, s->psn);
		return false;
	}
	if (!qp->resp.nak) { /* one that waits is about a request that the peer sends now */
		qp->resp.nak = NAK_REMOTE_ACCESS;
		qp->resp.nak_psn = s->psn;
	}
	retire_response(&qp->resp, s);
	return false;
}

/* Makes one packet of the response to a READ. False: the tx batch is full, or the region is gone and a NAK follows. */
static bool read_packet(struct qp *qp, struct tx_batch *batch, struct response *s)
{
	uint32_t length = min_of(s->left, s->mtu);
	bool last = length == s->left;
	const char *kept = NULL;
	uint8_t opcode = last ? (s->started ? OP_READ_RESPONSE_LAST : OP_READ_RESPONSE_ONLY)
			      : (s->started ? OP_READ_RESPONSE_MIDDLE : OP_READ_RESPONSE_FIRST);
	struct mr *mr = NULL;
	struct tx *tx;
	char *at;

	if (batch->packets >= BATCH_TRAINS || !batch_has_room(batch, length, false))
		return false;
	if (unlikely(qp->resp.repairs)) {
		if (!s->started)
			kept_take(qp, s);
		kept = kept_at(qp, s->psn, length);
	}
	if (length && !kept) {
		mr = read_region(qp, s, length, &at);
		if (!mr)
			return read_failed(qp, s);
	}
	tx = batch_packet(qp, batch, opcode | qp->transport, s->psn);
	if (!tx) {
		if (mr)
			mr_put(mr);
		return false;
	}
	tx->packet.syndrome = SYNDROME_ACK | SYNDROME_NO_CREDITS;
	tx->packet.msn = s->msn;
	if (kept)
		batch_bytes(batch, tx, kept, length);
	else if (mr && !batch_region(batch, tx, mr, at, length, s->left - length)) {
		batch_drop_last(batch, tx);
		return read_failed(qp, s);
	}
	trace(execute, qp->base.qp_num, s->psn.v, opcode, s->va, length, 0);
	trace(build, qp->base.qp_num, tx->packet.dest_qpn, s->psn.v, tx->packet.opcode, length, 0);
	s->started = true;
	s->va += length;
	s->left -= length;
	s->psn = psn_add(s->psn, 1);
	return true;
}

static bool atomic_packet(struct qp *qp, struct tx_batch *batch, struct response *s)
{
	uint8_t opcode = OP_ATOMIC_ACKNOWLEDGE | qp->transport;
	struct tx *tx = batch_has_room(batch, 0, true) ? batch_packet(qp, batch, opcode, s->psn) : NULL;

	if (!tx)
		return false;
	tx->packet.syndrome = SYNDROME_ACK | SYNDROME_NO_CREDITS;
	tx->packet.msn = s->msn;
	tx->packet.original = s->value;
	trace(build, qp->base.qp_num, tx->packet.dest_qpn, s->psn.v, tx->packet.opcode, 0, 0);
	return true;
}

/* Between local peers, puts the ACK into the last request of the tx batch. False: there is none. */
static bool ack_along(struct qp *qp, struct tx_batch *batch)
{
	struct packet *last = batch->packets ? &batch->tx[batch->packets - 1].packet : NULL;

	if (!last || !qp->req.lossless || !(flags_of(last) & IS_REQUEST))
		return false;
	responder_give_ack(qp, last);
	return true;
}

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
	batch_bytes(batch, tx, payload, early_tell(qp->resp.early, expected, payload));
	batch->bounced += tx->packet.length;
	qp->resp.sack_owed = false;
	trace(acknowledge, qp->base.qp_num, tx->packet.dest_qpn, expected.v, SYNDROME_NAK, qp->resp.msn, 0);
	return true;
}

static __attribute__((noinline)) bool send_responses(struct qp *qp, struct tx_batch *batch)
{
	struct responder *r = &qp->resp;

	if (unlikely(r->spent) && !batch->packets)
		kept_read_free_all(&r->spent);
	if (unlikely(r->repair_owed) && !kept_run(qp, batch))
		return true;
	while (r->response_count) {
		struct response *s = response_at(r, 0);
		bool atomic = s->kind == RESPOND_ATOMIC;

		if (!(atomic ? atomic_packet(qp, batch, s) : read_packet(qp, batch, s)))
			return r->response_count; /* 0 if the QP failed */
		if (atomic || s->left == 0)
			retire_response(r, s);
	}
	return false;
}

/* Makes the responses in PSN order. True: the tx batch was too small. */
bool responder_run(struct qp *qp, struct tx_batch *batch)
{
	const struct responder *r = &qp->resp;

	return (r->response_count || r->repairs) && send_responses(qp, batch);
}

/* Makes the other packets that are owed: NAK, ACK, congestion notification. True: the tx batch was too small. */
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
	if (responder_owes_ack(r, batch->delay_ack) && !ack_along(qp, batch))
		if (!ack_packet(qp, batch, r->ack_psn, SYNDROME_ACK | SYNDROME_NO_CREDITS))
			return true;
	if (r->cnp_owed) { /* a uroce believes it by its PSN: completer_congested() */
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

int responder_start(struct qp *qp, uint32_t resources)
{
	struct responder *r = &qp->resp;
	struct response *responses = calloc(resources ? resources : 1, sizeof(*responses));
	/* twice as many records: what has been answered in part is not outstanding for every peer */
	uint32_t known = r->answer_slots, slots = 2 * resources;
	struct answer_record *answers = calloc(slots ?: 1, sizeof(*answers));
	uint32_t count = min_of(r->response_count, resources);

	if (!responses || !answers) {
		free(responses);
		free(answers);
		return -ENOMEM;
	}
	/* in SQD the number of entries can change while the peer goes on: keeps the waiting responses and stored
	 * results */
	for (uint32_t i = 0; i < count; i++)
		responses[i] = *response_at(r, i);
	for (uint32_t i = 0; i < known; i++) {
		struct answer_record *a = &r->answers[(r->answer_next + i) % known];

		if (i + slots < known)
			kept_read_free(a->kept);
		else
			answers[i % slots] = *a;
	}
	free(r->responses);
	free(r->answers);
	r->responses = responses;
	r->answers = answers;
	r->response_size = resources;
	r->answer_slots = slots;
	r->response_head = 0;
	r->response_count = count;
	r->answer_next = known;
	return 0;
}

void responder_stop(struct qp *qp)
{
	struct rwqe *recv = qp->resp.recv;

	responder_free(&qp->resp);
	qp->resp = (struct responder){.recv = recv};
}
