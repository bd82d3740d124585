/* SPDX-License-Identifier: BSD-2-Clause */
/* Nothing here is on the way of a request that succeeds. */

#include "engine/cause.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/log.h"
#include "fault/inject.h"
#include "object/key_fault.h"

#define TEXT 512

static const char *opcode_text(unsigned opcode)
{
	static const char *const names[] = {
		[IBV_WR_RDMA_WRITE] = "WRITE",
		[IBV_WR_RDMA_WRITE_WITH_IMM] = "WRITE with immediate",
		[IBV_WR_SEND] = "SEND",
		[IBV_WR_SEND_WITH_IMM] = "SEND with immediate",
		[IBV_WR_RDMA_READ] = "READ",
		[IBV_WR_ATOMIC_CMP_AND_SWP] = "compare and swap",
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = "fetch and add",
		[IBV_WR_LOCAL_INV] = "local invalidate",
		[IBV_WR_BIND_MW] = "bind",
		[IBV_WR_SEND_WITH_INV] = "SEND with invalidate",
		[IBV_WR_ATOMIC_WRITE] = "atomic write",
	};

	return opcode < ARRAY_SIZE(names) && names[opcode] ? names[opcode] : "request of unknown opcode";
}

const char *state_text(enum ibv_qp_state state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return (unsigned)state < ARRAY_SIZE(names) ? names[state] : "an unknown state";
}

/* The QP at the other end. */
static const char *peer_text(const struct qp *qp, char text[96])
{
	char address[INET6_ADDRSTRLEN];

	snprintf(text, 96, "QP 0x%x at %s", qp->attr.dest_qp_num, gid_print(qp->path.dgid.raw, address));
	return text;
}

void cause_set(struct qp *qp, enum cause cause)
{
	if (!qp->cause)
		qp->cause = cause;
}

static_assert(CAUSE_LKEY_KIND - CAUSE_LKEY_UNKNOWN == KEY_KIND && CAUSE_RKEY_KIND - CAUSE_RKEY_UNKNOWN == KEY_KIND,
	      "causes have the order of enum key_fault");

static enum cause cause_of_sges(struct qp *qp, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
				unsigned access, char *text)
{
	enum key_fault fault = KEY_UNMAPPED;

	snprintf(text, KEY_FAULT_TEXT, "its memory is not mapped");
	for (uint32_t i = 0; i < count && hook_is_on(HOOK_FAULT); i++)
		if (inject_is_revoked(sge[i].lkey)) {
			snprintf(text, KEY_FAULT_TEXT, "its memory is gone: %s", cause_find(CAUSE_INJECTED)->meaning);
			return CAUSE_INJECTED;
		}
	for (uint32_t i = 0; i < count && fault == KEY_UNMAPPED; i++)
		if (sge[i].length)
			fault = key_fault(qp->hca, pd, (struct key_used){sge[i].lkey, true}, sge[i].addr, sge[i].length,
					  access, text);
	return CAUSE_LKEY_UNKNOWN + (enum cause)fault;
}

static enum cause cause_of_retries(const struct qp *qp, char *text)
{
	char peer[96], known[256];

	if (qp->strays) {
		snprintf(text, TEXT, "%s expects PSN 0x%x, this end begins with 0x%x", peer_text(qp, peer), qp->stray.v,
			 qp->attr.sq_psn);
		return CAUSE_PEER_PSN;
	}
	snprintf(text, TEXT,
		 "%s does not answer: sent again %u times (retry_cnt, timeout %u, so at least %.3g ms each)",
		 peer_text(qp, peer), qp->attr.retry_cnt, qp->attr.timeout,
		 (double)(4096ull << (qp->attr.timeout & 31)) / MSEC);
	if (qp->hca->ops->silent_peer && qp->hca->ops->silent_peer(qp, known, sizeof(known)))
		snprintf(text + strlen(text), TEXT - strlen(text), "; %s", known);
	return CAUSE_NO_ANSWER;
}

static enum cause cause_of_peer(const struct qp *qp, const struct wqe *w, enum ibv_wc_status status, char *text)
{
	enum cause cause = status == IBV_WC_REM_ACCESS_ERR ? CAUSE_PEER_ACCESS
			   : status == IBV_WC_REM_OP_ERR   ? CAUSE_PEER_OPERATION
							   : CAUSE_PEER_INVALID;
	char peer[96];

	peer_text(qp, peer);
	if (cause == CAUSE_PEER_ACCESS && !wqe_is_send(w)) /* a SEND names no memory of the peer */
		snprintf(text, TEXT, "%s refused access to 0x%" PRIx64 "..0x%" PRIx64 " by rkey 0x%x", peer,
			 w->remote_addr, w->remote_addr + w->length, w->rkey);
	else
		snprintf(text, TEXT, "%s refused it: %s", peer, cause_find(cause)->meaning);
	return cause;
}

static enum cause cause_of_length(const struct qp *qp, const struct wqe *w, char *text)
{
	bool is_atomic = w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
			 w->opcode == IBV_WR_ATOMIC_WRITE;
	bool whole = qp->transport == TRANSPORT_UD || qp->transport == TRANSPORT_RAW;

	if (is_atomic)
		snprintf(text, TEXT, "it needs 8 bytes");
	else
		snprintf(text, TEXT, "at most %u bytes are possible", whole ? qp->mtu : HCA_MAX_MESSAGE);
	return is_atomic ? CAUSE_ATOMIC_LENGTH : CAUSE_LENGTH;
}

static enum cause cause_of_request(struct qp *qp, const struct wqe *w, enum ibv_wc_status status, char *text)
{
	enum cause cause;

	switch (status) {
	case IBV_WC_LOC_LEN_ERR:
		return cause_of_length(qp, w, text);
	case IBV_WC_LOC_QP_OP_ERR:
		cause = wqe_wants_response(w) && !qp->attr.max_rd_atomic ? CAUSE_NO_READS : CAUSE_AH_DOMAIN;
		break;
	case IBV_WC_LOC_PROT_ERR:
		return cause_of_sges(qp, qp->pd, w->sge, w->num_sge, wqe_wants_response(w) ? IBV_ACCESS_LOCAL_WRITE : 0,
				     text);
	case IBV_WC_MW_BIND_ERR:
		cause = CAUSE_BIND;
		break;
	case IBV_WC_RETRY_EXC_ERR:
		return cause_of_retries(qp, text);
	case IBV_WC_RNR_RETRY_EXC_ERR:
		cause = CAUSE_NO_RECEIVE;
		break;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_INV_RD_REQ_ERR:
		return cause_of_peer(qp, w, status, text);
	case IBV_WC_BAD_RESP_ERR:
		cause = CAUSE_BAD_RESPONSE;
		break;
	default:
		cause = CAUSE_OTHER;
	}
	snprintf(text, TEXT, "%s", cause_find(cause)->meaning);
	return cause;
}

static bool is_injected(const struct qp *qp)
{
	return hook_is_on(HOOK_FAULT) && qp->inject && qp->inject->serial == qp->serial && qp->inject->fails;
}

enum cause cause_of_failure(struct qp *qp, const struct wqe *w, enum ibv_wc_status status)
{
	char text[TEXT];
	enum cause cause;

	if (status == IBV_WC_WR_FLUSH_ERR) {
		cause_set(qp, CAUSE_MOVED);
		return CAUSE_FLUSHED | qp->cause;
	}
	if (is_injected(qp)) {
		cause_set(qp, CAUSE_INJECTED);
		return CAUSE_INJECTED;
	}
	cause = cause_of_request(qp, w, status, text);
	cause_set(qp, cause);
	cause_say(cause, "QP 0x%x: %s of %u byte%s, wr_id 0x%" PRIx64 ", failed: %s", qp->base.qp_num,
		  opcode_text(w->opcode), w->length, w->length == 1 ? "" : "s", w->wr_id, text);
	return cause;
}

void cause_receive(struct qp *qp)
{
	const struct rwqe *r = qp->resp.recv;
	char text[KEY_FAULT_TEXT];
	enum cause cause = cause_of_sges(qp, receive_pd(qp), r->sge, r->num_sge, IBV_ACCESS_LOCAL_WRITE, text);

	cause_set(qp, cause);
	cause_say(cause, "QP 0x%x: the receive with wr_id 0x%" PRIx64 " cannot be used: %s", qp->base.qp_num, r->wr_id,
		  text);
}

void cause_starves(const struct qp *qp)
{
	char peer[96];

	if (!uroce_log_on(LOG_INFO))
		return;
	peer_text(qp, peer);
	if (qp->srq || is_xrc_target(qp))
		cause_note(CAUSE_NONE_POSTED, "QP 0x%x has no receive for a message of %s: its SRQ is empty",
			   qp->base.qp_num, peer);
	else
		cause_note(CAUSE_NONE_POSTED,
			   "QP 0x%x has no receive for a message of %s: %u were posted, and all of them are consumed",
			   qp->base.qp_num, peer, qp->rq.tail);
}

/* A message of UC or UD that finds no receive. */
static void say_lost(const struct qp *qp, const struct packet *p)
{
	uint32_t from = qp->transport == TRANSPORT_UD ? p->src_qpn : qp->attr.dest_qp_num;

	if (qp->srq)
		cause_say(CAUSE_MESSAGE_LOST, "QP 0x%x dropped a message of QP 0x%x: its SRQ is empty", qp->base.qp_num,
			  from);
	else
		cause_say(CAUSE_MESSAGE_LOST,
			  "QP 0x%x dropped a message of QP 0x%x: %u receive%s posted, and all of them are consumed",
			  qp->base.qp_num, from, qp->rq.tail, qp->rq.tail == 1 ? " was" : "s were");
}

static enum cause say_access(struct qp *qp, uint32_t rkey, uint64_t va, uint64_t length, unsigned access)
{
	char text[KEY_FAULT_TEXT], peer[96];
	enum key_fault fault =
		key_fault(qp->hca, target_pd(qp), (struct key_used){rkey, false}, va, length, access, text);
	enum cause cause = CAUSE_RKEY_UNKNOWN + (enum cause)fault;
	const char *name = access == IBV_ACCESS_REMOTE_WRITE  ? "a WRITE"
			   : access == IBV_ACCESS_REMOTE_READ ? "a READ"
							      : "an atomic";

	cause_say(cause, "QP 0x%x refused %s of %s: %s", qp->base.qp_num, name, peer_text(qp, peer), text);
	return cause;
}

void cause_access(struct qp *qp, uint32_t rkey, uint64_t va, uint64_t length, unsigned access)
{
	cause_set(qp, say_access(qp, rkey, va, length, access));
}

static enum cause say_packet_access(struct qp *qp, const struct packet *p)
{
	const struct responder *r = &qp->resp;
	uint32_t flags = opcode_info[p->opcode].flags;

	if ((flags & IS_WRITE) && !(flags & IS_FIRST))
		return say_access(qp, r->write_rkey, r->write_va, p->length, IBV_ACCESS_REMOTE_WRITE);
	if (flags & IS_ATOMIC)
		return say_access(qp, p->rkey, p->va, sizeof(uint64_t), IBV_ACCESS_REMOTE_ATOMIC);
	return say_access(qp, p->rkey, p->va, p->dma_length,
			  flags & IS_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
}

/* The check behind BAD_REQUEST that failed; checks.c has them in this order. */
static enum cause cause_of_bad_request(struct qp *qp, const struct packet *p)
{
	uint32_t flags = opcode_info[p->opcode].flags;
	unsigned need = flags & (IS_WRITE | IS_ATOMIC_WRITE) ? IBV_ACCESS_REMOTE_WRITE
			: flags & IS_READ		     ? IBV_ACCESS_REMOTE_READ
			: flags & IS_ATOMIC		     ? IBV_ACCESS_REMOTE_ATOMIC
							     : 0;

	if (check_sequence(qp, p) != ACCEPT)
		return CAUSE_OUT_OF_SEQUENCE;
	if ((qp->attr.qp_access_flags & need) != need)
		return CAUSE_QP_RIGHTS;
	if ((flags & (IS_ATOMIC | IS_ATOMIC_WRITE)) && (p->va & 7))
		return CAUSE_UNALIGNED;
	if (check_operation(qp, p) != ACCEPT)
		return CAUSE_TOO_MANY_READS;
	return is_xrc_target(qp) && !qp->xrc->srq ? CAUSE_SRQ_UNKNOWN : CAUSE_PACKET_LENGTH;
}

static void bad_request_text(const struct qp *qp, const struct packet *p, enum cause cause, char text[TEXT])
{
	char has[128];

	if (cause == CAUSE_QP_RIGHTS)
		snprintf(text, TEXT, "its qp_access_flags are %s", access_text(qp->attr.qp_access_flags, has));
	else if (cause == CAUSE_TOO_MANY_READS)
		snprintf(text, TEXT, "its max_dest_rd_atomic is %u, and as many wait", qp->attr.max_dest_rd_atomic);
	else if (cause == CAUSE_UNALIGNED)
		snprintf(text, TEXT, "the address 0x%" PRIx64 " is not a multiple of 8", p->va);
	else if (cause == CAUSE_PACKET_LENGTH)
		snprintf(text, TEXT, "a packet carries %u bytes, the path MTU here is %u", p->length, qp->mtu);
	else
		snprintf(text, TEXT, "%s", cause_find(cause)->meaning);
}

static enum cause say_refusal(struct qp *qp, const struct packet *p, enum verdict verdict)
{
	const struct responder *r = &qp->resp;
	char text[TEXT], peer[96];
	enum cause cause;

	if (verdict == ACCESS_DENIED)
		return say_packet_access(qp, p);
	if (verdict == TOO_LONG) {
		cause = CAUSE_RECEIVE_SHORT;
		snprintf(text, TEXT, "its receive with wr_id 0x%" PRIx64 " has %u bytes, the message at least %" PRIu64,
			 r->recv->wr_id, r->recv->length,
			 (uint64_t)(opcode_info[p->opcode].flags & IS_FIRST ? 0 : r->received) + p->length);
	} else {
		cause = verdict == BAD_INVALIDATE ? CAUSE_INVALIDATE : cause_of_bad_request(qp, p);
		bad_request_text(qp, p, cause, text);
	}
	cause_say(cause, "QP 0x%x refused the packet %s of %s: %s", qp->base.qp_num,
		  opcode_info[p->opcode].name ?: "of unknown opcode", peer_text(qp, peer), text);
	return cause;
}

static void say_injected(struct qp *qp, const struct packet *p)
{
	char peer[96];

	cause_set(qp, CAUSE_INJECTED);
	cause_say(CAUSE_INJECTED, "QP 0x%x refused the packet %s of %s: %s", qp->base.qp_num,
		  opcode_info[p->opcode].name ?: "of unknown opcode", peer_text(qp, peer),
		  cause_find(CAUSE_INJECTED)->meaning);
}

void cause_refusal(struct qp *qp, const struct packet *p, enum verdict verdict)
{
	if (unlikely(qp->inject) && qp->inject->refuses)
		say_injected(qp, p);
	else if (verdict == BAD_RECEIVE)
		cause_receive(qp);
	else
		cause_set(qp, say_refusal(qp, p, verdict));
}

void cause_repeated(const struct qp *qp, const struct packet *p)
{
	char peer[96];

	if (!qp->resp.msn && qp->resp.expected.v == qp->attr.rq_psn)
		cause_say(
			CAUSE_PSN_BEFORE,
			"QP 0x%x drops the packet %s of %s as repeated: its PSN is 0x%x, and the first is to have 0x%x "
			"(rq_psn)",
			qp->base.qp_num, opcode_info[p->opcode].name ?: "of unknown opcode", peer_text(qp, peer),
			p->psn.v, qp->attr.rq_psn);
}

void cause_drop(struct qp *qp, const struct packet *p, enum verdict verdict)
{
	if (verdict == NOT_READY)
		say_lost(qp, p);
	else if (qp->transport == TRANSPORT_UD && verdict == ACCESS_DENIED)
		cause_say(CAUSE_QKEY, "QP 0x%x dropped a datagram of QP 0x%x: its Q_Key is 0x%x, not 0x%x",
			  qp->base.qp_num, p->src_qpn, p->qkey, qp->attr.qkey);
	else if (qp->transport == TRANSPORT_UD && verdict == TOO_LONG)
		cause_say(CAUSE_RECEIVE_SHORT,
			  "QP 0x%x dropped a datagram of QP 0x%x: with 40 bytes for the GRH it has %u bytes, the "
			  "receive with wr_id 0x%" PRIx64 " has %u",
			  qp->base.qp_num, p->src_qpn, p->length + 40, qp->resp.recv->wr_id, qp->resp.recv->length);
	else if (verdict == TOO_LONG || verdict == ACCESS_DENIED)
		say_refusal(qp, p, verdict);
}

static void cause_full(const struct qp *qp)
{
	const struct sq *sq = &qp->sq;

	cause_say(CAUSE_SEND_QUEUE_FULL,
		  "QP 0x%x takes no more send requests: of %u (max_send_wr), %u are not complete, and %u are, but no "
		  "completion behind them has been polled",
		  qp->base.qp_num, sq->depth, sq->tail - sq->head,
		  sq->head - atomic_load_explicit(&sq->reclaimed, memory_order_relaxed));
}

/* The checks of post_build(), in their order. */
static void cause_invalid(const struct qp *qp, const struct ibv_send_wr *wr)
{
	static const char *const transports[] = {"RC", "UC", "RD", "UD", "", "XRC"};
	uint32_t qpn = qp->base.qp_num;
	unsigned transport = qp->transport >> 5;
	const char *name = opcode_text(wr->opcode);

	if (!post_has_opcode(qp, wr->opcode))
		cause_say(CAUSE_SEND_OPCODE, "QP 0x%x, of %s, has no %s", qpn,
			  transport < ARRAY_SIZE(transports) ? transports[transport] : "raw packets", name);
	else if (!wr->sg_list && wr->num_sge > 0)
		cause_say(CAUSE_SEND_SGES, "QP 0x%x: a %s of %d SGEs, whose list is NULL", qpn, name, wr->num_sge);
	else if (!sges_fit(wr->sg_list, wr->num_sge, qp->sq.max_sge))
		cause_say(CAUSE_SEND_SGES, "QP 0x%x: a %s of %d SGEs, more than max_send_sge %u", qpn, name,
			  wr->num_sge, qp->sq.max_sge);
	else if ((wr->send_flags & IBV_SEND_INLINE) && wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_RDMA_WRITE &&
		 posted_length(wr) <= qp->sq.max_inline)
		cause_say(CAUSE_SEND_NOT_INLINE, "QP 0x%x: a %s cannot be inline", qpn, name);
	else if ((wr->send_flags & IBV_SEND_INLINE) && posted_length(wr) > qp->sq.max_inline)
		cause_say(CAUSE_SEND_INLINE, "QP 0x%x: %" PRIu64 " bytes of inline data, more than max_inline_data %u",
			  qpn, posted_length(wr), qp->sq.max_inline);
	else
		cause_say(CAUSE_SEND_OTHER, "QP 0x%x: a %s lacks its address handle, window or region", qpn, name);
}

void cause_post(const struct qp *qp, const struct ibv_send_wr *wr, int error)
{
	if (qp->state < IBV_QPS_RTS || is_xrc_target(qp))
		cause_say(CAUSE_SEND_STATE, "QP 0x%x is in %s: it takes no send requests", qp->base.qp_num,
			  state_text(qp->state));
	else if (error == ENOMEM)
		cause_full(qp);
	else if (error == EINVAL)
		cause_invalid(qp, wr);
}

int cause_post_receive(const struct qp *qp)
{
	bool is_reset = qp->state == IBV_QPS_RESET;

	cause_say(is_reset ? CAUSE_RECEIVE_STATE : CAUSE_RECEIVE_SRQ, "QP 0x%x %s", qp->base.qp_num,
		  is_reset ? "is in RESET: it takes no receives" : "receives by an SRQ");
	return EINVAL;
}
