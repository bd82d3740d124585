/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/flow.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/config.h"
#include "base/trace.h"
#include "engine/congestion.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "engine/tuned.h"
#include "object/ah.h"
#include "object/offers.h"

#define NO_LIMIT LOSSLESS_WINDOW /* more messages than a window of bytes holds */

/* Time since `then`, in ns; the time may step back, as between local peers it is known roughly only (loop/loop.h). */
static uint64_t since(uint64_t then, uint64_t now)
{
	return now > then ? now - then : 0;
}

static bool takes_receive(const struct wqe *w)
{
	return w->opcode != IBV_WR_RDMA_WRITE;
}

static uint32_t bytes_ahead(const struct flow *f)
{
	return f->sent.bytes - f->told.bytes;
}

static uint32_t messages_ahead(const struct flow *f)
{
	return f->sent.messages - f->told.messages;
}

static uint32_t most_bytes(const struct qp *qp, const struct flow *f)
{
	uint32_t window = qp->req.lossless ? LOSSLESS_WINDOW : qp->req.window;

	return f->peer == FLOW_NEW ? min_of(FREE_BYTES, window) : window;
}

/* Messages that a sender may send without a grant. */
static uint32_t free_messages(const struct qp *qp)
{
	return qp->req.uncredited ? NO_LIMIT : qp->asks_first ? 0 : FREE_MESSAGES;
}

static bool is_full(const struct qp *qp, const struct flow *f, const struct wqe *w)
{
	bool begins = qp->req.packet == 0 && takes_receive(w);

	return bytes_ahead(f) >= most_bytes(qp, f) || (begins && messages_ahead(f) >= f->credits);
}

static bool is_half_full(const struct qp *qp, const struct flow *f)
{
	return bytes_ahead(f) >= most_bytes(qp, f) / 2 || messages_ahead(f) >= (f->credits + 1) / 2;
}

static bool flow_is_multicast(uint32_t qpn, const struct path *path)
{
	return qpn == QPN_MASK || path->dgid.raw[0] == 0xff;
}

/* The flow of this receiver. A new one replaces the least recently used. */
static struct flow *flow_find(struct qp *qp, uint32_t qpn, const struct path *path)
{
	struct flow *f = &qp->flow[0];

	for (uint32_t i = 0; i < UD_FLOWS; i++) {
		if (qp->flow[i].qpn == qpn && !memcmp(&qp->flow[i].to, &path->dgid, sizeof(path->dgid)) &&
		    qp->flow[i].used)
			return &qp->flow[i];
		if (qp->flow[i].used < f->used)
			f = &qp->flow[i];
	}
	*f = (struct flow){.to = path->dgid, .qpn = qpn, .credits = free_messages(qp)};
	if (flow_is_multicast(qpn, path)) {
		f->peer = FLOW_SILENT;
		f->asked_at = NEVER - CREDIT_SILENT;
	}
	return f;
}

struct flow *flow_of(struct qp *qp, struct wqe *w)
{
	return qp->transport == TRANSPORT_UD ? flow_find(qp, w->remote_qpn, wqe_path(&qp->sq, w)) : &qp->flow[0];
}

static bool is_idle(const struct flow *f)
{
	return bytes_ahead(f) == 0 && messages_ahead(f) == 0;
}

/* Checks whether the receiver is a local peer by now. */
static void look_near(struct qp *qp, const struct tx_batch *batch, struct flow *f, struct wqe *w)
{
	if (qp->transport == TRANSPORT_UD && batch->near && !f->near)
		f->next = batch->near->find(qp, wqe_path(&qp->sq, w), w->remote_qpn, batch->now);
}

/* True if a credit request has to wait: it must not overtake packets on the other link. A receiver that answers is
 * first asked whether it has all of those. */
static bool is_changing(struct flow *f)
{
	if (!f->next)
		return false;
	if (!is_idle(f))
		return f->peer == FLOW_HEARD;
	f->near = f->next;
	f->next = NULL;
	return false;
}

bool flow_reserve(struct qp *qp, struct tx_batch *batch, struct flow *f, uint32_t length)
{
	bool waits = f->peer != FLOW_SILENT;
	enum near_room room = f->near ? batch->near->reserve(qp, f->near, length, waits) : NEAR_ROOM;

	if (unlikely(room == NEAR_GONE))
		f->near = NULL;
	if (unlikely(room == NEAR_FULL))
		batch->full = true;
	return room != NEAR_FULL;
}

void flow_release(const struct tx_batch *batch, const struct flow *f, uint32_t length)
{
	if (f->near)
		batch->near->release(f->near, length);
}

static void flow_ask(struct qp *qp, struct tx_batch *batch, struct flow *f, struct wqe *w)
{
	struct tx *tx;

	if (!flow_reserve(qp, batch, f, 0)) {
		f->again_at = batch->now + CREDIT_FIRST;
		return;
	}
	tx = batch_has_room(batch, 0, true) ? batch_packet(qp, batch, OPCODE_CREDIT_REQUEST, psn(0)) : NULL;
	if (!tx) { /* the next run tries again */
		flow_release(batch, f, 0);
		return;
	}
	tx->near = f->near;
	tx->packet.src_qpn = qp->base.qp_num;
	if (qp->transport == TRANSPORT_UD)
		datagram_address(qp, w, tx);
	f->interval =
		f->asked.bytes == f->sent.bytes && f->interval ? min_of(2 * f->interval, CREDIT_LAST) : CREDIT_FIRST;
	/* a repeated credit request keeps its number, so that any answer is valid; a stranger has to guess it */
	if (!f->open || f->asked.bytes != f->sent.bytes)
		f->credit_request = (uint32_t)hca_random(qp->hca) & PSN_MASK;
	tx->packet.psn = psn(f->credit_request);
	f->asked = f->sent;
	f->open = true;
	f->asked_at = batch->now;
	f->again_at = batch->now + f->interval;
	look_near(qp, batch, f, w);
}

/* Forgets credits, which other senders may have by now. */
static void forget_credit(const struct qp *qp, struct flow *f)
{
	f->credits = min_of(f->credits, messages_ahead(f) + free_messages(qp));
}

static uint64_t patience_ends(const struct flow *f)
{
	return f->patient_at + (f->peer == FLOW_NEW ? CREDIT_NEW : CREDIT_PATIENCE);
}

/* True if a packet still waits for the receiver. False: it has waited long enough; the receiver counts as silent from
 * now on. */
static bool is_waited_for(const struct tx_batch *batch, struct flow *f)
{
	if (!f->held_at)
		f->held_at = f->patient_at = batch->now;
	if (f->near && since(f->held_at, batch->now) < CREDIT_BEHIND && batch->near->is_behind(f->near))
		f->patient_at = batch->now;
	if (batch->now >= patience_ends(f))
		f->peer = FLOW_SILENT;
	return f->peer != FLOW_SILENT;
}

bool flow_loses(struct qp *qp, struct tx_batch *batch, struct flow *f)
{
	if (is_waited_for(batch, f)) {
		qp->req.held = f;
		f->for_room = true;
		return false;
	}
	f->held_at = 0;
	batch->full = false;
	return true;
}

bool flow_holds(struct qp *qp, struct tx_batch *batch, struct flow *f, struct wqe *w)
{
	if (!f->held_at && since(f->used, batch->now) > CREDIT_PERIOD)
		forget_credit(qp, f);
	if (f->sent.bytes == 0)
		look_near(qp, batch, f, w);
	if (!is_changing(f) && (f->peer == FLOW_SILENT || !is_full(qp, f, w)))
		return false;
	if (!is_waited_for(batch, f))
		return false;
	if (batch->now >= f->again_at)
		flow_ask(qp, batch, f, w);
	qp->req.held = f;
	f->for_room = false;
	return true;
}

void flow_sent(struct qp *qp, struct tx_batch *batch, struct flow *f, struct wqe *w, uint32_t bytes)
{
	bool ends = qp->req.packet + 1 == w->packets;

	flow_count(f, bytes, ends && takes_receive(w), batch->now);
	f->held_at = 0;
	if (f->peer == FLOW_SILENT ? batch->now >= f->asked_at + CREDIT_SILENT : !f->open && is_half_full(qp, f))
		flow_ask(qp, batch, f, w);
}

/* True if one more small message makes a credit request due. */
static bool asks_next(const struct qp *qp, const struct flow *f)
{
	return !f->open && (bytes_ahead(f) + FAST_RING_MOST + PACKET_OVERHEAD >= most_bytes(qp, f) / 2 ||
			    messages_ahead(f) + 1 >= (f->credits + 1) / 2);
}

struct flow *engine_flow_near(struct qp *qp, const struct ibv_send_wr *wr, uint64_t now)
{
	const struct ah *ah = (const struct ah *)wr->wr.ud.ah;
	struct flow *f;

	if (!ah || ah->pd != qp->pd)
		return NULL;
	f = flow_find(qp, wr->wr.ud.remote_qpn & QPN_MASK, &ah->path);
	if (!f->near || f->next || f->held_at || f->peer == FLOW_SILENT || since(f->used, now) > CREDIT_PERIOD)
		return NULL;
	return messages_ahead(f) >= f->credits || bytes_ahead(f) >= most_bytes(qp, f) || asks_next(qp, f) ? NULL : f;
}

static struct flow *find_asked(struct qp *qp, const struct packet *p, const union ibv_gid *from)
{
	if (qp->transport == TRANSPORT_UC)
		return &qp->flow[0];
	for (uint32_t i = 0; i < UD_FLOWS; i++)
		if (qp->flow[i].used && qp->flow[i].qpn == p->src_qpn && !memcmp(&qp->flow[i].to, from, sizeof(*from)))
			return &qp->flow[i];
	return NULL;
}

void flow_granted(struct qp *qp, const struct packet *p, const union ibv_gid *from)
{
	struct flow *f = find_asked(qp, p, from);

	if (!f || !f->open || p->psn.v != f->credit_request)
		return; /* the answer to an earlier request, of which there may be a later one; or a stranger's */
	if (f->told.bytes != f->asked.bytes)
		f->again_at = 0; /* the flow goes on there: if the grant is not enough, ask again at once */
	f->told = f->asked;
	f->credits = qp->req.uncredited ? NO_LIMIT : ntohl(p->imm);
	f->open = false;
	if (f->credits || f->peer == FLOW_NEW)
		f->peer = FLOW_HEARD;
	qp->req.held = NULL; /* the next run checks again */
}

uint64_t flow_deadline(const struct qp *qp)
{
	const struct flow *f = qp->req.held;

	if (!f)
		return NEVER;
	return f->for_room ? patience_ends(f) : min_of(f->again_at, patience_ends(f));
}

void flow_reset(struct qp *qp)
{
	memset(qp->flow, 0, (qp->transport == TRANSPORT_UD ? UD_FLOWS : 1) * sizeof(*qp->flow));
	qp->req.held = NULL;
	qp->req.uncredited = !config_bool(CONFIG_PATIENCE);
	qp->flow[0].credits = free_messages(qp);
}

/* ---- the receiver ---- */

/* Ages credit grants, only when a credit request comes and by one period at most: so a slow receiver does not take a
 * sender for silent just because it has not read that sender's packets. */
static void pass_time(struct rq *rq, uint64_t now) REQUIRES(rq->lock)
{
	if (since(rq->period_at, now) < CREDIT_PERIOD)
		return;
	rq->period_at = now;
	rq->period++;
	list_each_safe (l, &rq->credits) {
		struct credit *p = container_of(l, struct credit, link);

		if (rq->period - p->period > CREDIT_PERIODS)
			rq_grant(rq, p, 0);
	}
}

struct credit *flow_credit(struct qp *qp, uint32_t qpn, const union ibv_gid *to)
{
	if (qp->transport == TRANSPORT_UC)
		return &qp->credit[0];
	for (uint32_t i = 0; i < UD_CREDITS && qp->credit[i].asked_at; i++)
		if (qp->credit[i].qpn == qpn && !memcmp(&qp->credit[i].to, to, sizeof(*to)))
			return &qp->credit[i];
	return qp->credit[0].asked_at ? NULL
				      : &qp->credit[0]; /* the first sender gets the credits kept for an expected one */
}

/* Makes an entry for a new sender, in place of the one whose last request is oldest; the first sender gets the credits
 * kept for an expected one. */
static struct credit *replace(struct qp *qp, struct rq *rq, uint32_t qpn, const union ibv_gid *to) REQUIRES(rq->lock)
{
	struct credit *p = &qp->credit[0];

	for (uint32_t i = 1; i < UD_CREDITS && p->asked_at; i++)
		if (qp->credit[i].asked_at < p->asked_at)
			p = &qp->credit[i];
	if (p->asked_at)
		rq_grant(rq, p, 0);
	p->to = *to;
	p->qpn = qpn;
	return p;
}

/* Number of receives that are kept for senders without a request yet. */
static uint32_t flow_expected(const struct rq *rq) REQUIRES(rq->lock)
{
	uint32_t n = 0;

	list_each (l, &rq->credits) {
		const struct credit *p = container_of(l, struct credit, link);

		n += p->asked_at ? 0 : p->receives;
	}
	return n;
}

void flow_expect(struct qp *qp)
{
	struct rq *rq = qp_receives(qp);

	lock_take(&rq->lock);
	rq_grant(rq, &qp->credit[0], FREE_MESSAGES);
	lock_drop(&rq->lock);
}

/* Number of receives granted. Half of the free ones are left to other senders that may ask. Unused credits stay
 * granted: the messages may be in flight. */
static uint32_t receives_for(struct qp *qp, const struct packet *credit_request, const union ibv_gid *from,
			     uint64_t now)
{
	bool may_others = qp->srq || qp->transport == TRANSPORT_UD;
	struct rq *rq = qp_receives(qp);
	uint32_t posted, others, left;
	struct credit *p;

	lock_take(&rq->lock);
	pass_time(rq, now);
	posted = rq->tail - rq->head + offers_unclaimed(rq);
	p = flow_credit(qp, credit_request->src_qpn, from);
	if (!p || !p->asked_at) {
		p = replace(qp, rq, credit_request->src_qpn, from);
		rq_grant(rq, p, min_of(p->receives, posted));
	}
	p->asked_at = now;
	others = rq->granted - p->receives;
	if (others > posted) /* too few receives for all possible senders: those that have asked come first */
		others -= flow_expected(rq);
	left = posted > others ? posted - others : 0;
	if (may_others)
		left = (left + 1) / 2;
	left = max_of(left, p->receives);
	rq_grant(rq, p, left);
	lock_drop(&rq->lock);
	return left;
}

bool engine_grant_credit(struct qp *qp, const struct packet *credit_request, const union ibv_gid *from, uint64_t now,
			 struct packet *answer)
{
	bool may_ask = qp->transport == TRANSPORT_UD   ? credit_request->qkey == qp->attr.qkey
		       : qp->transport == TRANSPORT_UC ? !memcmp(from, &qp->path.dgid, sizeof(*from)) &&
								 credit_request->src_qpn == qp->attr.dest_qp_num
						       : false;

	if (!qp_is_receiving(qp) || !may_ask || (credit_request->pkey & 0x7fff) != (PKEY_DEFAULT & 0x7fff))
		return false;
	*answer = (struct packet){
		.opcode = OPCODE_CREDIT_GRANT,
		.migrated = true,
		.pkey = PKEY_DEFAULT,
		.dest_qpn = credit_request->src_qpn,
		.src_qpn = qp->base.qp_num,
		.psn = credit_request->psn,
		.imm = htonl(receives_for(qp, credit_request, from, now)),
	};
	return true;
}
