/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the engine share. Everything here is called with qp->lock held. */
#ifndef UROCE_ENGINE_INTERNAL_H
#define UROCE_ENGINE_INTERNAL_H

#include "base/cause.h"
#include "base/trace.h"
#include "engine/engine.h"
#include "engine/faults.h"
#include "object/checker.h"
#include "object/early.h"

/* What a packet weighs in the congestion window: its bytes, and what buffers and headers cost besides. */
#define PACKET_OVERHEAD 128u
/* A READ goes out as requests of at most this many bytes, so that responses can be paced; boundaries are
 * multiples of it from the start of the message, so that a request sent again lies inside the one that was
 * lost. */
#define READ_CHUNK 65536u
/* What one packet refers to at most, in bytes: so long others of the receiver have to wait. */
#define REFERENCE_CHUNK (1u << 20)
/* The same of memory of a GPU, which is faster, but slow to begin. */
#define REFERENCE_CHUNK_GPU (32u << 20)
/* What carries data is sent in trains of so many bytes, if it can be: with headers, a UDP datagram takes no more. */
#define TRAIN 61440u
/* Packets in a train. */
static inline uint32_t train_of(uint32_t mtu)
{
	return min_of(max_of(TRAIN / mtu, 1u), (uint32_t)BATCH_TRAINS);
}
/* Packets: an ACK goes out after so many, asked for or not. */
#define ACK_EVERY 64
/* Bytes, from which on it is faster to fetch a payload from memory that is mapped than to send it. */
#define REFER_MAPPED 1024u
/* The congestion window at first, in bytes; and where there is no congestion. */
#define FIRST_WINDOW	(16 * (4096 + PACKET_OVERHEAD))
#define LOSSLESS_WINDOW (1u << 30)

/* Whether a PSN that is so far ahead of what is due, or behind, may be the peer's: uroce has no more in flight. */
static inline bool psn_is_near(int32_t ahead)
{
	return ahead > -(int32_t)SELECTIVE_PSNS && ahead < (int32_t)SELECTIVE_PSNS;
}
/* Whether it lies in [from, to). */
static inline bool psn_is_between(psn_t psn, psn_t from, psn_t to)
{
	return psn_diff(psn, from) >= 0 && psn_diff(psn, to) < 0;
}

/* Where lanes are decided: to be called when the state, the link, or what can be reached of the peer has changed. */
static inline void engine_set_lane(struct qp *qp)
{
	qp->needs_packets = hooks_any() && (qp_is_guarded(qp) || faults_want_packets(qp));
	if (qp->state != IBV_QPS_RTS || (hooks_any() && (qp_is_guarded(qp) || faults_touch(qp))))
		qp->lane = LANE_QUEUE;
	else if (qp->transport == TRANSPORT_UD)
		qp->lane = LANE_DATAGRAM;
	else if (qp->transport != TRANSPORT_RC)
		qp->lane = LANE_QUEUE;
	else if (!qp->req.lossless)
		qp->lane = LANE_UDP;
	else
		qp->lane = qp->reach ? LANE_MEMORY : LANE_RING;
}
static inline void engine_set_state(struct qp *qp, enum ibv_qp_state state)
{
	if (qp->state != state)
		trace(qp_state, qp->base.qp_num, qp->state, state, 0, 0, 0);
	qp->state = qp->attr.qp_state = state;
	engine_set_lane(qp);
}

/* post.c: whether the transport has that opcode. */
bool post_has_opcode(const struct qp *qp, enum ibv_wr_opcode opcode);

/* complete.c: work requests end. */
/* The WQE at sq.head is done: a CQE if it is signalled or failed; then the next is at the head. */
void complete_head(struct qp *qp, enum ibv_wc_status status);
extern const uint8_t opcode_when_complete[]; /* of each enum ibv_wr_opcode */
/* So are those that were executed here and are at the head now. */
void complete_local(struct qp *qp);
/* The WQE at sq.head fails and takes the QP with it, or (UC, UD) the send queue. */
void fail_head(struct qp *qp, enum ibv_wc_status status);
/* What follows a completion with an error: IBTA 10.3.1. */
void fail_as_completed(struct qp *qp, bool is_send);
/* The receive that the message which begins with this packet uses: resp.recv. False: none is posted. */
bool take_receive(struct qp *qp, const struct packet *first);
/* Whether there is one, for other than XRC. */
bool has_receive(struct qp *qp);
void complete_receive(struct qp *qp, const struct packet *last);
/* With an error, for the cause that the QP has been given: cause_set(). */
void fail_receive(struct qp *qp, enum ibv_wc_status status, const struct packet *last);
void flush_receive(struct qp *qp, uint32_t position, uint64_t wr_id);
/* The one place where completions are written. `poller`: see cq_push(); `reclaimed`: of the queue whose slot it frees,
 * needed with a poller only. A CQE that does not fit has ended the CQ, and with it its QPs (IBTA 11.6.2.1); but the
 * caller may be in the middle of something, so the QP fails at settle_overrun(). */
static inline __attribute__((always_inline)) void complete(struct qp *qp, struct cq *cq, struct cq_poller *poller,
							   _Atomic uint32_t *reclaimed, struct cqe cqe)
{
	if (unlikely(!cq_push(cq, poller, reclaimed, cqe)) && qp->state != IBV_QPS_ERR)
		qp->cq_lost = true;
}
static inline struct cqe cqe_posted(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t position,
				    uint32_t length)
{
	return (struct cqe){
		.wr_id = wr->wr_id,
		.qpn = qp->base.qp_num,
		.byte_len = length,
		.wqe = position,
		.opcode = opcode_when_complete[wr->opcode],
	};
}
static inline bool is_signaled(const struct qp *qp, const struct ibv_send_wr *wr)
{
	return qp->sig_all || (wr->send_flags & IBV_SEND_SIGNALED);
}
/* Work requests that were done as they were posted, without a WQE: they took `count` places in the queue, from
 * `position` on. `length`: of the first. */
void complete_posted_list(struct qp *qp, const struct ibv_send_wr *wr, uint32_t position, uint32_t count);
static inline __attribute__((always_inline)) void complete_posted(struct qp *qp, const struct ibv_send_wr *wr,
								  uint32_t position, uint32_t count, uint32_t length)
{
	if (hooks_any())
		faults_complete_posted(qp, wr, position, count);
	if (unlikely(count != 1))
		complete_posted_list(qp, wr, position, count);
	else if (is_signaled(qp, wr))
		complete(qp, qp->send_cq, NULL, NULL, cqe_posted(qp, wr, position, length));
}
/* To ERR: everything outstanding is flushed. */
void enter_error(struct qp *qp);
/* The requests in the send queue complete with WR_FLUSH_ERR. */
void flush_sends(struct qp *qp);
/* To ERR, telling an asynchronous event first. */
void fail_with_event(struct qp *qp, enum ibv_event_type event);
void flush(struct qp *qp);
/* run.c: a CQ that overran takes the QP down, but not in the middle of a step. */
void settle_overrun(struct qp *qp) REQUIRES(qp->lock);
/* SQ_DRAINED, once, when a QP in SQD has nothing on the way. */
void settle_drain(struct qp *qp) REQUIRES(qp->lock);

/* requester.c */
/* Whether the work request at the cursor can go out. False: it has to wait, or has failed. */
bool pick_up(struct qp *qp, struct wqe *w);
/* A WRITE has succeeded: what that tells of the peer's memory. */
void requester_proved(struct qp *qp, const struct wqe *w);
/* cause.c: why something failed, told once per cause and put into completions. `cause`: of the QP; the first counts. */
void cause_set(struct qp *qp, enum cause cause);
/* complete() of a WQE with an error. */
void complete_failed(struct qp *qp, const struct wqe *w, uint32_t position, enum ibv_wc_status status);
const char *state_text(enum ibv_qp_state state);
/* A request could not be posted. */
void cause_post(const struct qp *qp, const struct ibv_send_wr *wr, int error);
/* This QP takes no receives; returns EINVAL. */
int cause_post_receive(const struct qp *qp);
/* The receive in progress cannot take what came. */
void cause_receive(struct qp *qp);
/* A message has to wait for a receive. */
void cause_starves(const struct qp *qp);
/* complete_head(), inline. */
static inline __attribute__((always_inline)) void complete_wqe(struct qp *qp, struct wqe *w, enum ibv_wc_status status,
							       struct cq_poller *poller)
{
	uint32_t position = qp->sq.head++;

	if (hooks_any())
		status = faults_complete(qp, w, position, status);
	w->state = status == IBV_WC_SUCCESS ? WQE_COMPLETED : WQE_ERROR;
	if (unlikely(w->opcode == IBV_WR_RDMA_WRITE) && status == IBV_WC_SUCCESS)
		requester_proved(qp, w);
	qp->req.acked = 0;
	if (unlikely(status != IBV_WC_SUCCESS))
		complete_failed(qp, w, position, status);
	else if (qp->sig_all || (w->flags & IBV_SEND_SIGNALED))
		complete(qp, qp->send_cq, poller, &qp->sq.reclaimed,
			 (struct cqe){
				 .wr_id = w->wr_id,
				 .qpn = qp->base.qp_num,
				 .byte_len = w->length,
				 .wqe = position,
				 .opcode = opcode_when_complete[w->opcode],
			 });
}
/* A packet to be sent, in place: its values are no memory that the compiler would have to keep apart from it. */
static inline void packet_begin(struct packet *p, uint8_t opcode, uint32_t dest_qpn, psn_t psn)
{
	*p = (struct packet){
		.opcode = opcode,
		.migrated = true, /* as adapters that never migrate set it */
		.pkey = PKEY_DEFAULT,
		.dest_qpn = dest_qpn,
		.psn = psn,
	};
}
/* One request packet of a work request. NULL: the tx batch is full, or the work request has failed. */
struct tx *request_packet(struct qp *qp, struct tx_batch *batch, struct wqe *w, uint32_t position, uint32_t packet,
			  psn_t psn, bool ask);
/* Whether the tx batch has room for that packet. */
bool request_fits(const struct qp *qp, struct tx_batch *batch, const struct wqe *w, uint32_t packet);
/* A packet of that work request could not be sent: engine_unreadable(). */
void requester_unreadable(struct qp *qp, uint32_t position);
bool requester_run(struct qp *qp, struct tx_batch *batch);
/* Packets that the next request packet of this work request stands for. */
uint32_t requester_span_of(const struct qp *qp, const struct wqe *w, uint32_t packet);
/* Charge of what is on the way to the peer. */
static inline uint32_t in_network(const struct requester *r)
{
	return r->flight > r->absent ? r->flight - r->absent : 0;
}
/* Packets have left that weigh so much. */
static inline void requester_sent(struct requester *r, uint32_t packets, uint32_t charge)
{
	r->flight += charge;
	r->next = psn_add(r->next, packets);
	if (unlikely(psn_diff(r->next, r->high) <= 0))
		return; /* again */
	r->high = r->next;
}
/* With them the message at the cursor has left as a whole. */
static inline void requester_sent_whole(struct qp *qp)
{
	struct requester *r = &qp->req;

	r->packet = 0;
	if (likely(++r->wqe == qp->sq.tail))
		r->peer_spoke = false;
}
/* What has been sent so far asks for an acknowledgement. */
static inline void requester_asked(struct requester *r, psn_t end)
{
	r->unasked = 0;
	r->asked = end;
}
/* The work request at the cursor, of one packet, is sent. Whether that asks for an ACK. */
bool requester_sends_only(struct qp *qp, const struct wqe *w, uint64_t now, uint32_t budget);
bool requester_can_run(const struct qp *qp);
uint32_t wqe_charge(const struct qp *qp, const struct wqe *w, uint32_t from, uint32_t to);
uint32_t wqe_packets(const struct qp *qp, const struct wqe *w);
static inline bool wqe_is_send(const struct wqe *w)
{
	return w->opcode == IBV_WR_SEND || w->opcode == IBV_WR_SEND_WITH_IMM || w->opcode == IBV_WR_SEND_WITH_INV;
}
bool wqe_wants_response(const struct wqe *w); /* READ or atomic: an ACK does not complete it */

/* congestion.c */
/* A round trip has been measured. */
void congestion_measured(struct requester *r, uint64_t round_trip);
/* The window of a requester with a scoreboard grows, as bytes have arrived. */
void congestion_grow(struct requester *r, uint32_t acked);
void note_loss(struct qp *qp, bool timeout);
static inline void grow_window(struct requester *r, uint32_t acked)
{
	if (unlikely(r->board)) {
		congestion_grow(r, acked);
		return;
	}
	if (r->recovering || r->lossless)
		return;
	if (r->window < r->threshold)
		r->window += acked;
	else
		r->window += (uint32_t)((uint64_t)acked * (4096 + PACKET_OVERHEAD) / r->window);
}

/* completer.c */
/* `packets` from una on are acknowledged, which weigh `charge`. Whether the cursor stands before them: it went back,
 * and need not have. */
static inline bool requester_acknowledged(struct requester *r, uint32_t packets, uint32_t charge)
{
	bool behind;

	r->una = psn_add(r->una, packets);
	behind = psn_diff(r->next, r->una) < 0;
	r->flight = behind || charge > r->flight ? 0 : r->flight - charge;
	grow_window(r, charge);
	return behind;
}
void completer_receive(struct qp *qp, const struct packet *p, uint64_t now);
/* What a request from the peer acknowledges besides. */
void completer_acknowledged(struct qp *qp, psn_t psn, uint64_t now);
void completer_congested(struct qp *qp, psn_t psn);
/* A selective acknowledgement. */
void completer_selective(struct qp *qp, const struct packet *p, uint64_t now);
/* OPCODE_ANSWERED_AGAIN: reassembly.h */
void completer_answered_again(struct qp *qp, const struct packet *p, uint64_t now);
/* Everything before una + count is acknowledged, except READs and atomics, which need their response. False: a
 * response was lost. */
bool completer_acknowledge(struct qp *qp, uint32_t count, uint64_t now);
void completer_settle(struct qp *qp);

/* onesided.c: a work request that needs no packet, as its peer's memory can be reached, when all before it are done. */
bool onesided_possible(const struct qp *qp, const struct wqe *w);
/* Executes the operation. False: nothing has been done, or nothing that cannot be done again; the request goes out as
 * packets. */
bool onesided_perform(struct qp *qp, const struct wqe *w);
/* Every one-sided operation that was done passes here; `position`: in the send queue. */
static inline void onesided_done(const struct qp *qp, uint32_t position, uint8_t opcode, uint64_t address,
				 uint64_t length)
{
	if (!hooks_any())
		return;
	if (checker_listens())
		checker->accessed(qp, opcode, address, length);
	trace(onesided, qp->base.qp_num, position, opcode, address, length, 0);
}
/* The same of a WQE, with what a capture shows of it. */
void onesided_done_wqe(struct qp *qp, const struct wqe *w, uint32_t position);
/* Whether the payload of a SEND had better be fetched by the peer, in one copy. */
bool onesided_may_refer(const struct qp *qp, struct wqe *w); /* it is long enough; sets w->of_gpu */
static inline bool onesided_refers(const struct qp *qp, struct wqe *w)
{
	return w->length >= REFER_MAPPED && onesided_may_refer(qp, w);
}
/* Fetches the payload that a packet of a SEND refers to into the receive, behind what has been received. False: it
 * cannot be reached (any more). */
bool onesided_fetch(struct qp *qp, const struct packet *p);
/* The same of a WRITE, to that address of a region. */
bool onesided_fetch_to(struct qp *qp, const struct packet *p, struct mr *mr, char *at);

/* The same of one that lies in one piece, to `to`, if it is mapped here. False: it is not, or as above. */
bool onesided_fetch_piece(struct qp *qp, const struct packet_piece *piece, char *to);

/* responder.c. The checks of a request, in the order in which they are made; what RC makes of the verdict is
 * in its table of outcomes. */
enum verdict {
	ACCEPT = 0,
	DUPLICATE,
	GAP,
	SILENT,		/* drop without a word */
	NOT_READY,	/* no receive posted */
	BAD_REQUEST,	/* opcode out of sequence, not allowed here, bad length */
	TOO_LONG,	/* longer than the receive */
	ACCESS_DENIED,	/* key, bounds, rights */
	BAD_RECEIVE,	/* the receive's own SGEs are wrong */
	BAD_INVALIDATE, /* what it invalidates is no window that this QP may use */
	VERDICTS
};
/* PSNs that so many bytes take. */
static inline uint32_t packets_of(uint32_t mtu, uint32_t length)
{
	return length <= mtu ? 1 : (uint32_t)(((uint64_t)length + mtu - 1) / mtu);
}
/* A request was refused with a verdict that fails the QP. */
void cause_refusal(struct qp *qp, const struct packet *p, enum verdict verdict);
/* The same of UC and UD: the message is dropped without a word to the peer, so only a message tells of it. */
void cause_drop(struct qp *qp, const struct packet *p, enum verdict verdict);
/* An access of the peer was refused: a READ that had begun, by its key. */
void cause_access(struct qp *qp, uint32_t rkey, uint64_t va, uint64_t length, unsigned access);
enum verdict check_sequence(const struct qp *qp, const struct packet *p);
enum verdict check_operation(struct qp *qp, const struct packet *p);
enum verdict check_receive(struct qp *qp, const struct packet *p);
enum verdict check_length(const struct qp *qp, const struct packet *p);
enum verdict check_rkey(const struct qp *qp, const struct packet *p);
/* The region that a key names, itself or by a window, if it allows the access; NULL otherwise. *at becomes where the
 * bytes are. */
struct mr *remote_region(const struct qp *qp, uint32_t rkey, uint64_t va, uint64_t length, unsigned access, char **at);
enum verdict execute(struct qp *qp, const struct packet *p);
/* The domain that what arrives must be in: of XRC, that of the SRQ that the packet names. */
static inline struct pd *target_pd(const struct qp *qp)
{
	const struct srq *srq = xrc_srq(qp);

	return unlikely(srq) ? pd_domain(srq->pd) : qp->pd;
}
/* The domain that the memory of its receives must be in: an SRQ's receives are in the SRQ's. */
static inline struct pd *receive_pd(const struct qp *qp)
{
	return unlikely(qp->srq) ? pd_domain(qp->srq->pd) : target_pd(qp);
}
/* The message goes on, or ends with this packet, and its receive with it. */
void message_advance(struct qp *qp, const struct packet *p);
void responder_receive(struct qp *qp, const struct packet *p, uint64_t now);
/* Whether a READ asks for the same bytes again, or for the last of them. Anything else is a stranger's. */
bool asks_again(const struct qp *qp, const struct packet *p);
/* The record of the request that this is a duplicate of. NULL: there is none. */
struct answer_record *find_answer(const struct responder *r, psn_t psn, bool is_read);
/* Packets that came before their turn are dropped: the peer will send all of them again. */
void responder_drop_early(struct qp *qp);
/* Nor could a READ response. */
void responder_unreadable(struct qp *qp, psn_t psn);
bool responder_run(struct qp *qp, struct tx_batch *batch);
bool responder_acknowledge(struct qp *qp, struct tx_batch *batch);
static inline void responder_owes_nothing(struct responder *r)
{
	r->ack = ACK_NONE;
	r->unacked = 0;
}
/* What was asked for at the end of a message waits, when the next message has begun, for the end of that one: then
 * one ACK does for both. More packets are bound to come, and with them that end, ACK_EVERY, or an urgent one. */
static inline bool responder_owes_ack(const struct responder *r, bool delay)
{
	if (r->ack == ACK_NONE || r->unacked >= ACK_EVERY)
		return r->ack;
	return r->ack >= ACK_ASKED && (r->ack == ACK_URGENT || r->inbound == INBOUND_NONE) &&
	       (!delay || r->unacked >= ACK_PROMPT);
}
/* A request that leaves, between local peers, acknowledges what is due to be acknowledged. */
static inline void responder_give_ack(struct qp *qp, struct packet *request)
{
	struct responder *r = &qp->resp;

	trace(acknowledge, qp->base.qp_num, qp->attr.dest_qp_num, r->ack_psn.v, SYNDROME_ACK, r->msn, 0);
	request->acknowledges = true;
	request->acknowledged = r->ack_psn;
	responder_owes_nothing(r);
}
/* A request has been taken, which uses up so many PSNs; `flags`: of its opcode. */
static inline __attribute__((always_inline)) void responder_took(struct responder *r, const struct packet *p,
								 uint32_t packets, uint32_t flags)
{
	uint8_t ack = !p->ack_request ? ACK_OWED : flags & IS_LAST ? ACK_ASKED : ACK_URGENT;

	r->expected = psn_add(r->expected, packets);
	if (!(flags & (IS_READ | IS_ATOMIC_WRITE | IS_ATOMIC)))
		r->ack_psn = psn_add(r->expected, -1u);
	if (flags & IS_LAST)
		r->msn = (r->msn + 1) & PSN_MASK;
	r->nak_sent = false;
	r->nak = 0;
	r->starves = false;
	r->look_at = 0;
	r->unacked++;
	r->ack = max_of(r->ack, ack);
}
bool responder_has_work(const struct qp *qp, bool delay_ack);
/* The RNR NAK with this end's timer is to be sent. */
void starve(struct qp *qp);
int responder_start(struct qp *qp, uint32_t resources);
void responder_stop(struct qp *qp);

/* patience.c: a message has found no receive. False: the peer has to be told. */
bool patience_begin(struct qp *qp);
void patience_expire(struct qp *qp, uint64_t now);

/* unreliable.c: what UC and UD do in place of requester_run() and requester_can_run() */
bool unreliable_run(struct qp *qp, struct tx_batch *batch);
bool unreliable_can_run(const struct qp *qp);

/* What earlier tx batches held has been sent by now: then its memory is the application's again. */
void unreliable_sent(struct qp *qp);

void datagram_address(struct qp *qp, struct wqe *w, struct tx *tx);
/* IBTA 10.2.5: a Q_Key with the high bit set is not for everybody to use; the QP's own is meant. */
static inline uint32_t datagram_qkey(const struct qp *qp, uint32_t asked)
{
	return asked >> 31 ? qp->attr.qkey : asked;
}

/* flow.c: who of UC and UD may send */
struct flow *flow_of(struct qp *qp, struct wqe *w);
/* Whether the packet at the cursor has to wait for its receiver. */
bool flow_holds(struct qp *qp, struct tx_batch *batch, struct flow *f, struct wqe *w);
/* Room for the packet at the cursor, or a credit request, where it is to go. False: the tx batch is full. */
bool flow_reserve(struct qp *qp, struct tx_batch *batch, struct flow *f, uint32_t length);
/* There was no room for a packet: whether it is lost, as the receiver has been waited for long enough. */
bool flow_loses(struct qp *qp, struct tx_batch *batch, struct flow *f);
void flow_release(const struct tx_batch *batch, const struct flow *f, uint32_t length);
/* The packet at the cursor is in the tx batch. */
void flow_sent(struct qp *qp, struct tx_batch *batch, struct flow *f, struct wqe *w, uint32_t bytes);
/* As far as that counts what has been sent; `message`: one that takes a receive ends with it. */
static inline void flow_count(struct flow *f, uint32_t bytes, bool message, uint64_t now)
{
	f->sent.bytes += bytes + PACKET_OVERHEAD;
	f->sent.messages += message;
	f->used = now ?: 1;
}
void flow_granted(struct qp *qp, const struct packet *p, const union ibv_gid *from);
uint64_t flow_deadline(const struct qp *qp);
void flow_reset(struct qp *qp);
/* What this sender has been granted; NULL: nothing. */
struct credit *flow_credit(struct qp *qp, uint32_t qpn, const union ibv_gid *to);
/* With an SRQ, in RTR: somebody may be about to send, unasked at first. */
void flow_expect(struct qp *qp);

/* migration.c */
/* IBV_QP_PATH_MIG_STATE: 0, or -errno with its cause. */
int migration_check(const struct qp *qp, const struct ibv_qp_attr *a, int mask);
/* The state has been set by the program. */
void migration_set(struct qp *qp, enum ibv_mig_state state, uint64_t now);
/* No retry is left on this path: false if there is no other one. */
bool migration_rescues(struct qp *qp);

/* uc.c, ud.c */
void uc_receive(struct qp *qp, const struct packet *p);
void ud_receive(struct qp *qp, const struct packet *p, const union ibv_gid *from);

/* retry.c: time and loss */
enum retry_reason { RETRY_NAK, RETRY_GAP, RETRY_TIMEOUT, RETRY_PROBE, RETRY_RNR, RETRY_SELECTIVE, RETRY_PATH };
/* Puts the cursor back to `psn`, which lies in [una, high]. */
void go_back(struct qp *qp, psn_t psn, enum retry_reason reason);
/* The path is a new one: everything in flight is sent again. */
void retry_on_path(struct qp *qp, uint64_t now);
void note_sent(struct qp *qp, uint64_t now);
void note_progress(struct qp *qp, uint64_t now);
/* The same where nothing is lost. */
static inline void note_moved(struct qp *qp)
{
	struct requester *r = &qp->req;

	r->retries = qp->attr.retry_cnt;
	r->rnr_retries = qp->attr.rnr_retry;
	r->gap_seen = false;
	r->pause = PAUSE_NONE; /* what was refused stood at una: it has been taken since, in an earlier copy */
	r->moved = true;
}
/* The peer is there, and has received something out of order. */
void note_heard(struct qp *qp, uint64_t now);
/* Karn: an answer could be to either copy. Where nothing is known, the time since the first one is better than that. */
static inline void forget_timing(struct requester *r)
{
	if (r->srtt)
		r->timed_at = 0;
}
/* The requester has gone back: what it had asked for before may come for one round trip. */
void note_hole(struct requester *r, uint64_t now);
/* The packet whose round trip is measured has arrived. */
void round_trip_measured(struct requester *r, uint64_t now);
/* One retry less; false: none was left, and the request at the head has failed. */
bool spend_retry(struct qp *qp);
void wait_for_receiver(struct qp *qp, psn_t psn, uint8_t timer, uint64_t now);
void retry_reset(struct qp *qp);
/* Reads UROCE_TIMERS. */
void retry_configure(struct qp *qp);
/* The timeout attribute or the link has changed. */
void retry_set_intervals(struct qp *qp);
/* How long to wait for an answer that is not lost: ns. */
uint64_t round_trip(const struct requester *r);

/* tx_batch.c */
/* The next free packet of the tx batch, headers filled as every packet of this QP has them; NULL: the tx batch is
 * full. */
struct tx *batch_packet(struct qp *qp, struct tx_batch *batch, uint8_t opcode, psn_t psn);
/* Whether the link takes a packet with that much payload; if not, the tx batch is full. Acknowledgements may take
 * `spare`. */
bool batch_has_room(struct tx_batch *batch, uint32_t length, bool spare);
/* Adds payload to the packet last taken. False: no room, or (gather) an SGE is not memory of the domain. */
void batch_bytes(struct tx_batch *batch, struct tx *tx, const void *bytes, uint32_t length);
bool batch_gather(struct qp *qp, struct tx_batch *batch, struct tx *tx, const struct ibv_sge *sge, uint32_t count,
		  uint64_t offset, uint32_t length);
/* One more packet like the last, with the next PSN: its payload is in one SGE, and in the region that the last one's is
 * in. NULL: not so, or the tx batch is full. */
struct tx *batch_repeat(struct qp *qp, struct tx_batch *batch, const struct ibv_sge *sge, uint64_t offset,
			uint32_t length);
/* In place of payload: where it lies. */
void batch_refer(struct tx_batch *batch, struct tx *tx, const struct ibv_sge *sge, uint32_t count, uint64_t offset,
		 uint32_t length);
/* Takes over the caller's hold on the region. `follow`: bytes behind these that packets after this one will need, as
 * far as they belong to the same request. False: the memory is not there. */
bool batch_region(struct tx_batch *batch, struct tx *tx, struct mr *mr, const char *at, uint32_t length,
		  uint32_t follow);
void batch_drop_last(struct tx_batch *batch, struct tx *tx);

#endif
