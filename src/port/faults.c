/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/faults.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hooks.h"
#include "base/log.h"
#include "base/timer.h"
#include "base/trace.h"
#include "engine/engine.h"
#include "engine/hooks.h"
#include "engine/place_last.h"
#include "link/udp.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "memory/fault.h"
#include "port/local_link.h"
#include "port/local_peer.h"
#include "port/nearby.h"
#include "port/transmit.h"
#include "port/tuned.h"

/* A packet that is delayed. */
struct held {
	struct list link; /* in inject_qp->held */
	uint64_t at;	  /* ns: when the packet goes on */
	uint32_t passing; /* packets that go first; 0: the packet waits for the time alone */
	bool out;
	bool bad_icrc;	      /* out */
	struct packet packet; /* header; the payload follows the struct */
	struct path path;     /* out */
	union ibv_gid from;   /* in */
	uint8_t to[16];
	uint32_t bytes;
	uint8_t payload[];
};

/* ---- what is asked ---- */

static uint32_t span_of(const struct qp *qp, const struct packet *p)
{
	uint32_t flags = opcode_info[p->opcode].flags, mtu = p->mtu ?: qp->req.mtu ?: 1;

	return (flags & IS_READ) && (flags & IS_REQUEST) ? max_of((p->dma_length + mtu - 1) / mtu, 1u) : 1;
}

/* True if this PSN has been sent, or received, before. Always false for UC and UD, which send nothing again. */
static bool is_repeated(const struct qp *qp, struct inject_qp *q, const struct packet *p, bool out, bool is_response)
{
	unsigned which = out * 2 + is_response;
	psn_t *next = &q->next[which];
	bool known = q->known & 1u << which;

	if (!is_reliable(qp))
		return false;
	if (known && psn_diff(p->psn, *next) < 0)
		return true;
	q->known |= 1u << which;
	*next = psn_add(p->psn, span_of(qp, p));
	return false;
}

/* The opcode that rules see. Packets of selective retransmission count as an ACK, a READ request, a READ response. */
static uint8_t opcode_asked(const struct packet *p)
{
	switch (p->opcode) {
	case OPCODE_SELECTIVE_ACK:
		return TRANSPORT_RC | OP_ACKNOWLEDGE;
	case OPCODE_ANSWER_AGAIN:
		return TRANSPORT_RC | OP_READ_REQUEST;
	case OPCODE_ANSWERED_AGAIN:
		return TRANSPORT_RC | OP_READ_RESPONSE_MIDDLE;
	default:
		return p->opcode;
	}
}

/* Asks the rules about a packet. Rules hit no credit packets of UC and UD, which are uroce's own, but a partition drops
 * these too. */
static bool packet_ask(struct qp *qp, struct inject_qp *q, const struct packet *p, const union ibv_gid *peer, bool out,
		       struct inject_verdict *v)
{
	uint8_t opcode = opcode_asked(p);
	bool response = opcode_info[opcode].flags & IS_RESPONSE;
	struct inject_event e = {
		.event = RULE_PACKET,
		.direction = out ? RULE_OUT : RULE_IN,
		.opcode = opcode,
		.qpn = qp->base.qp_num,
		.psn = (uint32_t)psn_diff(p->psn, psn(out != response ? qp->attr.sq_psn : qp->attr.rq_psn)) & PSN_MASK,
		.size = p->length,
		.header = opcode_info[p->opcode].header_bytes,
		.peer = peer ? peer->raw : NULL,
		.device = faults_device(qp),
		.state = (uint8_t)qp->state,
	};

	if (inject_is(DO_PORT_DOWN, e.device)) {
		v->action = DO_PARTITION;
		return true;
	}
	e.repeated = is_repeated(qp, q, p, out, response);
	return inject_ask(&e, q, v);
}

/* ---- changed packets ---- */

static void flip(uint8_t *bytes, uint64_t bit)
{
	bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* Flips a bit of the headers, counted from the BTH. False: no receiver would take the packet. */
static bool corrupt_header(struct packet *p, uint64_t bit)
{
	uint8_t bytes[PACKET_HEADERS + 4] = {0};
	struct packet was = *p;
	size_t n;

	p->length = 0; /* the pad is not parsed */
	n = packet_encode(p, bytes);
	flip(bytes, bit % (8 * n));
	if (packet_parse(p, bytes, n) || opcode_info[p->opcode].header_bytes != n)
		return false;
	p->length = was.length;
	p->pieces = was.pieces;
	p->payload = was.payload;
	p->mtu = was.mtu;
	p->to = was.to;
	p->traffic_class = was.traffic_class;
	p->brief = false;
	return !p->length || opcode_info[p->opcode].flags & HAS_PAYLOAD;
}

/* ---- held packets ---- */

static void arm(struct loop *l, struct qp *qp, uint64_t at) REQUIRES(qp->lock)
{
	if (qp->loop.timer_at && qp->loop.timer_at <= at)
		return;
	qp->loop.timer_at = at;
	if (timer_set(&l->hca.timers, &qp->timer, at))
		helper_deadline(l, at);
}

static uint64_t due(struct inject_qp *q, const struct inject_verdict *v, uint32_t bytes, uint64_t now)
{
	if (v->action == DO_DELAY || v->action == DO_LAST_FIRST)
		return now + v->value[0];
	if (v->action == DO_CORRUPT)
		return now;
	if (v->action == DO_REORDER)
		return now + OVERTAKEN;
	q->busy_until = max_of(q->busy_until, now) + (uint64_t)((double)bytes * 1e9 / (double)v->value[0]);
	return q->busy_until;
}

/* Adds a held packet, which the caller fills in. NULL: too many are held, so the packet is lost. */
static struct held *hold(struct loop *l, struct qp *qp, const struct packet *p, const struct inject_verdict *v,
			 uint64_t now) REQUIRES(qp->lock)
{
	struct inject_qp *q = qp->inject;
	struct held *h = q->held_count < HELD_MAX ? malloc(sizeof(*h) + packet_carries(p)) : NULL;

	if (!h)
		return NULL;
	*h = (struct held){
		.at = due(q, v, packet_bytes(p), now),
		.passing = v->action == DO_REORDER ? (uint32_t)v->value[0] : 0,
		.packet = *p,
		.bytes = packet_carries(p),
	};
	list_append(&q->held, &h->link);
	q->held_count++;
	arm(l, qp, h->at);
	return h;
}

static void held_free(struct inject_qp *q, struct held *h)
{
	list_remove(&h->link);
	q->held_count--;
	free(h);
}

/* Counts a packet that has passed, for held packets that wait to be overtaken. */
static void passed(struct inject_qp *q, bool out, uint64_t now)
{
	list_each (l, &q->held) {
		struct held *h = container_of(l, struct held, link);

		if (h->out == out && h->passing && !--h->passing)
			h->at = now;
	}
}

/* ---- out ---- */

uint32_t faults_before(struct qp *qp, uint32_t room, uint64_t now)
{
	struct inject_qp *q = hook_is_on(HOOK_FAULT) ? inject_of(&qp->inject, qp->serial) : NULL;

	if (!q)
		return room;
	if (q->late) {
		q->late_until = max_of(q->late_until, now + q->late);
		q->late = 0;
	}
	if (q->late_until > now && qp->req.pause == PAUSE_NONE) {
		qp->req.pause = PAUSE_LATE;
		qp->req.pause_until = q->late_until;
	}
	return room != UINT32_MAX ? room / 2 : room;
}

static bool gather(void *to, const struct tx_batch *batch, const struct tx *tx)
{
	char *at = to;

	for (uint32_t i = 0; i < tx->iovs; at += batch->iov[tx->iov + i].iov_len, i++)
		if (!fault_copy_any(at, batch->iov[tx->iov + i].iov_base, batch->iov[tx->iov + i].iov_len))
			return false;
	return true;
}

/* A changed payload, kept until the next tx batch of its queue pair. */
struct changed {
	struct list link; /* in inject_qp->changed */
	uint8_t payload[];
};

/* Corrupts a packet that leaves. False: no receiver would take the packet. */
static bool corrupt_out(struct inject_qp *q, struct tx_batch *batch, struct tx *tx, const struct inject_verdict *v)
{
	struct changed *c;

	if (v->value[0] == PART_ICRC)
		return false;
	if (v->value[0] == PART_HEADER)
		return corrupt_header(&tx->packet, v->value[1]);
	c = tx->packet.length ? malloc(sizeof(*c) + tx->packet.length) : NULL;
	if (!c || !gather(c->payload, batch, tx)) {
		free(c);
		return true;
	}
	list_append(&q->changed, &c->link);
	flip(c->payload, v->value[1] % (8ull * tx->packet.length));
	batch->iov[tx->iov] = (struct iovec){c->payload, tx->packet.length};
	tx->iovs = 1;
	return true;
}

static void truncate_out(struct tx_batch *batch, struct tx *tx, uint32_t length)
{
	uint32_t left = length, i;

	for (i = 0; i < tx->iovs && left; i++) {
		struct iovec *iov = &batch->iov[tx->iov + i];

		iov->iov_len = min_of(iov->iov_len, (size_t)left);
		left -= (uint32_t)iov->iov_len;
	}
	tx->iovs = i;
	tx->packet.length = length;
}

static void hold_out(struct loop *l, struct qp *qp, struct tx_batch *batch, const struct tx *tx,
		     const struct inject_verdict *v) REQUIRES(qp->lock)
{
	struct held *h = hold(l, qp, &tx->packet, v, batch->now);

	if (!h)
		return;
	h->out = true;
	h->bad_icrc = v->action == DO_CORRUPT;
	h->path = *tx->path;
	if (!gather(h->payload, batch, tx))
		held_free(qp->inject, h);
}

/* Inserts a copy of packet `i` behind that packet. */
static void send_twice(struct qp *qp, struct tx_batch *batch, uint32_t i) REQUIRES(qp->lock)
{
	struct tx *tx = &batch->tx[i];

	if (batch->packets == BATCH_PACKETS ||
	    (tx->near && nearby_ops.reserve(qp, tx->near, tx->packet.length, false) != NEAR_ROOM))
		return;
	memmove(tx + 1, tx, (batch->packets - i) * sizeof(*tx));
	batch->packets++;
}

/* Applies a verdict to packet `i` of the tx batch. False: the packet is not sent now. */
static bool change_out(struct loop *l, struct qp *qp, struct tx_batch *batch, uint32_t i,
		       const struct inject_verdict *v) REQUIRES(qp->lock)
{
	struct tx *tx = &batch->tx[i];

	switch (v->action) {
	case DO_DROP:
	case DO_PARTITION:
		return false;
	case DO_DELAY:
	case DO_REORDER:
	case DO_RATE:
		if (qp->inject->ends)
			return true;
		hold_out(l, qp, batch, tx, v);
		return false;
	case DO_CORRUPT:
		if (v->value[0] == PART_ICRC && !tx->near && !qp->inject->ends)
			hold_out(l, qp, batch, tx, v); /* the packet leaves alone, behind this batch */
		return corrupt_out(qp->inject, batch, tx, v);
	case DO_TRUNCATE:
		truncate_out(batch, tx, (uint32_t)v->value[0]);
		return true;
	case DO_DUPLICATE:
		send_twice(qp, batch, i);
		return true;
	default:
		faults_act(qp, v);
		return true;
	}
}

static void remove_out(struct tx_batch *batch, uint32_t i, uint32_t length)
{
	struct tx *tx = &batch->tx[i];

	if (tx->near)
		nearby_ops.release(tx->near, length);
	batch->packets--;
	memmove(tx, tx + 1, (batch->packets - i) * sizeof(*tx));
}

void faults_send(struct loop *l, struct qp *qp, struct tx_batch *batch, struct local_peer *near)
{
	struct inject_qp *q = inject_of(&qp->inject, qp->serial);
	struct inject_verdict v;
	uint32_t before, i = 0;

	if (q)
		inject_forget(&q->changed);
	while (q && i < batch->packets) {
		struct tx *tx = &batch->tx[i];
		uint32_t length = tx->packet.length;

		before = batch->packets;
		if (packet_ask(qp, q, &tx->packet, &tx->path->dgid, true, &v) && !change_out(l, qp, batch, i, &v)) {
			remove_out(batch, i, length);
			continue;
		}
		passed(q, true, batch->now);
		i += 1 + batch->packets - before; /* skips the repeated packet */
	}
}

/* Sends a held packet. False: there is no room now. */
NO_LOCK_ANALYSIS static bool send_held(struct qp *qp, struct local_peer *near, const struct held *h, uint64_t now)
{
	struct iovec iov = {(void *)h->payload, h->bytes};
	struct link_tx tx = {
		.packet = &h->packet,
		.iov = &iov,
		.iovs = h->bytes > 0,
		.dgid = &h->path.dgid,
		.sgid = &h->path.sgid,
		.traffic_class = h->path.traffic_class,
		.hop_limit = h->path.hop_limit,
		.flow_label = h->path.flow_label,
		.bad_icrc = h->bad_icrc,
	};
	struct local_peer *peer =
		qp->transport == TRANSPORT_UD ? nearby_ops.find(qp, &h->path, h->packet.dest_qpn, now) : NULL;
	bool by_ring = near && (qp->req.lossless || !(opcode_info[h->packet.opcode].flags & IS_REQUEST));

	if (h->bad_icrc && (peer || by_ring))
		return true; /* a ring has no ICRC */
	if (peer)
		return nearby_put(peer, &tx);
	if (by_ring) {
		if (local_room(near) < h->bytes + BATCH_OVERHEAD)
			return false;
		transmit(&near->link, &tx, 1);
		qp->loop.sent_to = near->tx_ring.at;
	} else if (h->path.port && h->packet.length <= qp->mtu && !h->packet.pieces) {
		transmit(h->path.port->link, &tx, 1);
	}
	return true;
}

/* Held packets leave in the order of their times; at the same time, in the order in which they were held. */
void faults_sent(struct loop *l, struct qp *qp, struct local_peer *near, uint64_t now)
{
	struct inject_qp *q = inject_of(&qp->inject, qp->serial);
	struct held *first;

	do {
		first = NULL;
		if (q)
			list_each (i, &q->held) {
				struct held *h = container_of(i, struct held, link);

				if (h->out && (!first || h->at < first->at))
					first = h;
			}
		if (!first || first->at > now)
			break;
		if (!send_held(qp, near, first, now)) {
			arm(l, qp, now + FULL_WAIT);
			return;
		}
		held_free(q, first);
	} while (true);
	if (first)
		arm(l, qp, first->at);
}

void faults_release(struct qp *qp)
{
	struct inject_qp *q = hook_is_on(HOOK_FAULT) ? inject_of(&qp->inject, qp->serial) : NULL;
	struct local_peer *near;

	if (!q)
		return;
	q->ends = true;
	list_each (i, &q->held)
		container_of(i, struct held, link)->at = 0;
	near = local_enter(qp);
	faults_sent(loop_of(qp), qp, near, clock_now());
	if (near)
		local_leave(qp, near, false);
}

void faults_release_all(struct loop *l)
{
	struct qp *qp;

	for (uint32_t i = 0; (qp = pool_next(&l->hca.qps, &i)); i++) {
		if (!lock_try(&qp->lock))
			continue; /* held by this thread itself, if exit() was called from a signal handler */
		if (qp->alive)
			faults_release(qp);
		lock_drop(&qp->lock);
	}
}

/* ---- in ---- */

static bool hold_in(struct loop *l, struct qp *qp, const struct fault_arrival *a, const struct inject_verdict *v,
		    uint64_t now) REQUIRES(qp->lock)
{
	const struct packet *p = a->packet;
	bool is_datagram = opcode_info[p->opcode].flags & HAS_DETH;
	struct held *h;

	if (TRANSPORT(p->opcode) == TRANSPORT_XRC)
		return false; /* XRC: the packet may belong to another process */
	h = hold(l, qp, p, v, now);
	if (!h)
		return true;
	h->from = *a->from;
	if (is_datagram) /* a ring tells the addresses of datagrams only */
		memcpy(h->to, p->to, sizeof(h->to));
	if (h->bytes)
		memcpy(h->payload, p->payload, h->bytes);
	h->packet.to = h->to;
	h->packet.payload = h->payload;
	return true;
}

/* A copy of the packet that may be changed. NULL: no memory. */
static struct packet *copy_in(struct fault_arrival *a)
{
	uint32_t bytes = packet_carries(a->packet);
	struct packet *copy = malloc(sizeof(*copy) + bytes);

	if (!copy)
		return NULL;
	*copy = *a->packet;
	copy->payload = memcpy(copy + 1, a->packet->payload, bytes);
	a->copy = copy;
	a->packet = copy;
	return copy;
}

/* Counts a packet with a bad ICRC. A ring has no ICRC, so there the packet is just lost. */
static void count_icrc(const struct qp *qp, const struct fault_arrival *a)
{
	if (a->by_port && qp->path.port)
		link_udp_count_icrc(qp->path.port->link);
}

static bool corrupt_in(const struct qp *qp, struct fault_arrival *a, const struct inject_verdict *v)
{
	struct packet *p = v->value[0] == PART_ICRC ? NULL : copy_in(a);

	if (v->value[0] == PART_ICRC)
		count_icrc(qp, a);
	if (!p)
		return false;
	if (v->value[0] == PART_HEADER)
		return corrupt_header(p, v->value[1]);
	if (p->length && !p->pieces)
		flip((uint8_t *)(p + 1), v->value[1] % (8ull * p->length));
	return true;
}

/* Applies a verdict to a packet that arrives. False: the packet does not arrive now. */
static bool change_in(struct loop *l, struct qp *qp, struct fault_arrival *a, const struct inject_verdict *v,
		      uint64_t now) REQUIRES(qp->lock)
{
	struct packet *copy;

	switch (v->action) {
	case DO_DROP:
	case DO_PARTITION:
		trace(drop, qp->base.qp_num, a->packet->psn.v, a->packet->opcode, DROP_BY_FAULT, 0, 0);
		return false;
	case DO_DELAY:
	case DO_REORDER:
	case DO_RATE:
		return !hold_in(l, qp, a, v, now);
	case DO_CORRUPT:
		return corrupt_in(qp, a, v);
	case DO_TRUNCATE:
		copy = a->packet->pieces ? NULL : copy_in(a);
		if (copy)
			copy->length = min_of(copy->length, (uint32_t)v->value[0]);
		return true;
	case DO_DUPLICATE:
		a->times = 2;
		return true;
	case DO_LAST_FIRST:
		return !engine_place_last(qp, a->packet) || !hold_in(l, qp, a, v, now);
	case DO_NAK:
		engine_refuse(qp, a->packet, (uint8_t)v->value[0], now);
		return false;
	case DO_RNR:
		engine_refuse(qp, a->packet, (uint8_t)(SYNDROME_RNR | v->value[0]), now);
		return false;
	case DO_REVOKE:
		faults_revoke(qp, a->packet->rkey);
		return true; /* the packet then finds the region revoked: faults_arrive() */
	default:
		faults_act(qp, v);
		return true;
	}
}

/* Asks the rules about the memory that the packet accesses. False: the packet does not arrive now. */
static bool memory_arrive(struct loop *l, struct qp *qp, const struct fault_arrival *a, uint64_t now) REQUIRES(qp->lock)
{
	const struct packet *p = a->packet;
	uint32_t flags = opcode_info[p->opcode].flags;
	struct inject_verdict v = {.action = DO_DELAY};

	if ((flags & IS_SEND) && (flags & IS_FIRST)) {
		v.value[0] = faults_use_receive(qp, p);
		return !v.value[0] || !hold_in(l, qp, a, &v, now);
	}
	if (!(flags & IS_REQUEST) || !(flags & (HAS_RETH | IS_ATOMIC)) || !faults_use_remote(qp, p, &v))
		return true;
	if (v.action == DO_DELAY)
		return !hold_in(l, qp, a, &v, now);
	if (v.action != DO_REFUSE)
		return true;
	if (is_reliable(qp))
		engine_refuse(qp, p, NAK_REMOTE_ACCESS, now);
	return false;
}

bool faults_arrive(struct loop *l, struct qp *qp, struct fault_arrival *a, uint64_t now)
{
	struct inject_qp *q = inject_of(&qp->inject, qp->serial);
	const struct packet *p = a->packet;
	struct inject_verdict v;

	a->times = 1;
	if (!q || !qp_is_receiving(qp))
		return true;
	if (p->pieces && qp->needs_packets) /* the payload is requested, and comes in packets that a rule can hit */
		return true;
	if (packet_ask(qp, q, p, a->from, false, &v) && !change_in(l, qp, a, &v, now))
		return false;
	if (inject_listens(RULE_MEMORY) && !memory_arrive(l, qp, a, now))
		return false;
	if (opcode_info[p->opcode].flags & HAS_RETH && opcode_info[p->opcode].flags & IS_REQUEST && is_reliable(qp) &&
	    inject_is_revoked(p->rkey)) {
		engine_refuse(qp, p, NAK_REMOTE_ACCESS, now);
		return false;
	}
	passed(q, false, now);
	return true;
}

void faults_arrived(struct qp *qp, uint64_t now)
{
	struct inject_qp *q = inject_of(&qp->inject, qp->serial);

	if (!q)
		return;
	list_each_safe (i, &q->held) {
		struct held *h = container_of(i, struct held, link);

		if (h->out || h->at > now)
			continue;
		engine_receive(qp, &h->packet, &h->from, now, NULL);
		held_free(q, h);
	}
}

void faults_expire(struct loop *l, struct qp *qp, uint64_t now)
{
	struct inject_qp *q = inject_of(&qp->inject, qp->serial);
	uint64_t next = NEVER;
	struct local_peer *near;

	if (!q || list_empty(&q->held))
		return;
	faults_arrived(qp, now);
	near = local_enter(qp);
	faults_sent(l, qp, near, now);
	if (near)
		local_leave(qp, near, false);
	list_each (i, &q->held)
		next = min_of(next, container_of(i, struct held, link)->at);
	if (next != NEVER)
		arm(l, qp, max_of(next, now + FULL_WAIT));
}

/* ---- the peer's process ---- */

static void stop_process(struct qp *qp, uint64_t duration)
{
	const struct local_peer *peer = qp->path.local_peer;
	pid_t pid = peer && local_peer_state(peer) == LOCAL_PEER_MET ? peer->pid : 0;

	if (!pid || pid == getpid()) {
		log_warn("a fault was to %s the peer of queue pair 0x%06x: that is %s", duration ? "stop" : "end",
			 qp->base.qp_num, pid ? "this process itself" : "no process of this host and user");
		return;
	}
	kill(pid, duration ? SIGSTOP : SIGKILL);
	if (duration)
		inject_resume(pid, duration);
}

void faults_renew_lanes(void)
{
	struct loop *l = loop_hold();
	struct qp *qp;

	faults_stop_peer = stop_process;
	for (uint32_t i = 0; l && (qp = pool_next(&l->hca.qps, &i)); i++) {
		lock_take(&qp->lock);
		if (qp->alive)
			engine_renew_lane(qp);
		lock_drop(&qp->lock);
	}
	loop_release();
}
