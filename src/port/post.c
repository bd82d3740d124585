/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting. On an idle queue pair a request leaves at once, by the row of the post table for the queue pair's lane and
 * the opcode. Requests that the row declines, and all others, go through the queue (engine/post.c). */
#include "port/post.h"

#include "base/clock.h"
#include "base/hooks.h"
#include "engine/engine.h"
#include "engine/deliver.h"
#include "engine/fast_send.h"
#include "link/record.h"
#include "link/ring.h"
#include "loop/loop.h"
#include "object/ah.h"
#include "port/local_link.h"
#include "port/local_peer.h"
#include "port/run.h"
#include "port/severed.h"
#include "port/transmit.h"
#include "port/tuned.h"

/* Bytes free in the ring before a request is written, as its length is not known yet; leaves room for an ACK. */
#define ROOM (RECORD_OVERHEAD + FAST_RING_MOST + BATCH_SPARE)

static void note_post(struct loop *l)
{
	atomic_store_explicit(&l->last_post, clock_now(), memory_order_relaxed); /* a hint for the helper */
}

/* Tells the helper of one post in NOTED: posts to a local peer take little time. */
FAST_INLINE void note_posts(struct qp *qp, uint32_t before) REQUIRES(qp->lock)
{
	if (unlikely((qp->sq.tail ^ before) / NOTED))
		note_post(loop_of(qp));
}

/* ---- LANE_RING, LANE_MEMORY, LANE_DATAGRAM: from the work request to the record in the local peer's ring ---- */

FAST_INLINE bool post_has_room(struct local_peer *peer) REQUIRES(peer->lock)
{
	return likely(ring_has_room(&peer->tx_ring, peer->reserved + ROOM));
}

/* Locks the local peer. False: it is gone, or has not been met. */
FAST_INLINE bool post_enter(struct local_peer *peer) TRY_ACQUIRE(true, peer->lock) NO_LOCK_ANALYSIS
{
	lock_take(&peer->lock);
	if (likely(local_peer_state(peer) == LOCAL_PEER_MET))
		return true;
	lock_drop(&peer->lock);
	return false;
}

/* As local_leave(), but the lock's own barrier serves the ring too. The local peer may be gone by then; the struct and
 * the ring word that ring_is_asleep() reads remain as long as one of its QPs is locked. */
FAST_INLINE void post_leave(struct local_peer *peer) RELEASE(peer->lock)
{
	lock_drop_fully(&peer->lock);
	if (ring_is_asleep(&peer->tx_ring))
		local_peer_wake(peer);
}

FAST_INLINE bool post_ring_one(struct qp *qp, struct local_peer *peer, const struct ibv_send_wr *wr, bool is_common)
	REQUIRES(qp->lock, peer->lock)
{
	uint32_t header = record_header(!is_common && wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? HAS_RETH : 0);
	struct ring_mark *at = ring_next(&peer->tx_ring);
	struct packet p;

	if (!post_has_room(peer) || !engine_fast_send(qp, wr, &p, (char *)at + header, is_common))
		return false;
	transmit_placed(peer, at, &p, header, &qp->path);
	return true;
}

static __attribute__((noinline)) bool post_ring_rare(struct qp *qp, struct local_peer *peer,
						     const struct ibv_send_wr *wr) REQUIRES(qp->lock, peer->lock)
{
	return post_ring_one(qp, peer, wr, false);
}

static __attribute__((noinline)) void begin_timer(struct loop *l, struct qp *qp) REQUIRES(qp->lock)
{
	engine_fast_time(qp, clock_about());
	set_deadline(l, qp);
}

/* Posts requests as packets in the ring, from the first on; returns the rest. */
NO_LOCK_ANALYSIS static __attribute__((noinline)) struct ibv_send_wr *post_packets(struct qp *qp,
										   struct local_peer *peer,
										   struct ibv_send_wr *wr)
{
	uint32_t before = qp->sq.tail;
	bool posted;

	if (unlikely(!post_enter(peer)))
		return wr;
	do
		posted = fast_is_common(qp, wr) ? post_ring_one(qp, peer, wr, true) : post_ring_rare(qp, peer, wr);
	while (likely(posted) && (wr = wr->next));
	if (unlikely(qp->sq.tail == before)) {
		lock_drop(&peer->lock);
		return wr;
	}
	qp->loop.sent_to = peer->tx_ring.at;
	post_leave(peer);
	if (!engine_fast_is_timed(qp))
		begin_timer(loop_of(qp), qp);
	return wr;
}

/* Delivers requests, from the first on; returns the rest. The first, which may be long, is stored before others have to
 * wait for the ring. */
NO_LOCK_ANALYSIS FAST_INLINE struct ibv_send_wr *post_delivered(struct qp *qp, struct local_peer *peer,
								struct ibv_send_wr *wr)
{
	const struct ibv_send_wr *first = wr;
	struct delivery d;
	struct packet p;
	bool enters;

	if (unlikely(!(likely(deliver_is_plain(qp, wr, HCA_MAX_MESSAGE)) ? deliver_begin(qp, wr, &p, &d)
									 : deliver_any(qp, wr, &p, &d))))
		return wr;
	enters = post_enter(peer);
	if (unlikely(!enters || !post_has_room(peer))) {
		if (enters)
			lock_drop(&peer->lock);
		deliver_abandon(qp, &d);
		return wr;
	}
	do {
		transmit_delivered(peer, ring_next(&peer->tx_ring), &p, 0, &qp->path);
		wr = wr->next;
	} while (deliver_next(qp, likely(!wr) || post_has_room(peer) ? wr : NULL, &p, &d));
	post_leave(peer);
	deliver_end(qp, first, &d);
	return wr;
}

/* Posts one request whose bytes its record carries. False: it is not one. */
NO_LOCK_ANALYSIS static bool post_carried_one(struct qp *qp, struct local_peer *peer, const struct ibv_send_wr *wr)
{
	struct delivery d;
	struct packet p;
	bool enters;

	if (!deliver_carry(qp, wr, &p, &d))
		return false;
	enters = post_enter(peer);
	if (unlikely(!enters ||
		     !ring_has_room(&peer->tx_ring, peer->reserved + RECORD_OVERHEAD + p.length + BATCH_SPARE) ||
		     !deliver_load(qp, wr, &p, (char *)ring_next(&peer->tx_ring) + sizeof(struct record)))) {
		if (enters)
			lock_drop(&peer->lock);
		deliver_abandon(qp, &d);
		return false;
	}
	transmit_delivered(peer, ring_next(&peer->tx_ring), &p, p.length, &qp->path);
	post_leave(peer);
	deliver_carried(qp, wr, &p, &d);
	return true;
}

/* Not inlined again. */
NO_LOCK_ANALYSIS static __attribute__((noinline)) struct ibv_send_wr *post_stored(struct qp *qp,
										  struct local_peer *peer,
										  struct ibv_send_wr *wr)
{
	return post_delivered(qp, peer, wr);
}

/* Delivers requests to receives whose memory is not mapped here, from the first on; returns the rest. */
NO_LOCK_ANALYSIS static __attribute__((noinline)) struct ibv_send_wr *post_carried(struct qp *qp,
										   struct local_peer *peer,
										   struct ibv_send_wr *wr)
{
	struct ibv_send_wr *rest = wr;

	while (rest && deliver_may(qp) && deliver_carries(qp)) {
		wr = post_carried_one(qp, peer, rest) ? rest->next : post_stored(qp, peer, rest);
		if (wr == rest)
			break;
		rest = wr;
	}
	return rest;
}

/* The row for SENDs, and WRITEs with immediate data. */
/* called by the post table, with qp->lock held */
NO_LOCK_ANALYSIS static struct ibv_send_wr *post_ring(struct qp *qp, struct ibv_send_wr *wr)
{
	struct local_peer *peer = qp->path.local_peer;
	struct ibv_send_wr *rest = wr;
	uint32_t before = qp->sq.tail;

	if (unlikely(!peer))
		return wr;
	while (rest && deliver_may(qp) && likely(!deliver_carries(qp)) && (wr = post_delivered(qp, peer, rest)) != rest)
		rest = wr;
	if (unlikely(rest && deliver_carries(qp)))
		rest = post_carried(qp, peer, rest);
	if (unlikely(rest))
		rest = post_packets(qp, peer, rest);
	if (likely(qp->sq.tail != before))
		note_posts(qp, before);
	return rest;
}

/* called with the lock of to->near, which has no name here */
NO_LOCK_ANALYSIS FAST_INLINE bool post_datagram(struct qp *qp, struct flow *to, const struct ibv_send_wr *wr,
						uint64_t now)
{
	struct local_peer *peer = to->near;
	struct ring_mark *at = ring_next(&peer->tx_ring);
	uint32_t header = record_header(HAS_DETH);
	struct packet p;

	if (!post_has_room(peer) || !engine_fast_datagram(qp, wr, to, now, &p, (char *)at + header))
		return false;
	transmit_placed(peer, at, &p, header, &((const struct ah *)wr->wr.ud.ah)->path);
	return true;
}

/* The row for datagrams: posts those at the front of the list that are for one local peer. */
/* called by the post table, with qp->lock held */
NO_LOCK_ANALYSIS static struct ibv_send_wr *post_datagrams(struct qp *qp, struct ibv_send_wr *wr)
{
	uint64_t now = clock_about();
	struct flow *to = qp->sq.head == qp->sq.tail ? engine_flow_near(qp, wr, now) : NULL;
	struct local_peer *peer = to ? to->near : NULL;
	const struct ibv_send_wr *first = wr;
	uint32_t before = qp->sq.tail;

	if (unlikely(!peer || !post_enter(peer)))
		return wr;
	while (to && to->near == peer && post_datagram(qp, to, wr, now)) {
		wr = wr->next;
		to = unlikely(wr) ? engine_flow_near(qp, wr, now) : NULL;
	}
	if (unlikely(qp->sq.tail == before)) {
		lock_drop(&peer->lock);
		return wr;
	}
	post_leave(peer);
	engine_fast_datagrams_sent(qp, first);
	note_posts(qp, before);
	return wr;
}

/* ---- LANE_UDP: small SENDs that are alike, and the ACK that is due, as one train ---- */

/* called by the post table, with qp->lock held */
NO_LOCK_ANALYSIS static struct ibv_send_wr *post_udp(struct qp *qp, struct ibv_send_wr *wr)
{
	struct loop *l = loop_of(qp);
	struct port *port = qp->path.port;
	struct link_tx tx[FAST_UDP_LIST + 1];
	struct packet packet[FAST_UDP_LIST + 1];
	uint32_t count, most;
	uint64_t now;
	char *payload;

	if (qp->path.local_peer || unlikely(!port) || !engine_fast_send_fits(qp, wr) || !port->link->ops->room)
		return wr;
	payload = port->link->ops->room(port->link, &most);
	if (unlikely(!payload))
		return wr;
	payload += opcode_info[OP_SEND_ONLY].header_bytes;
	now = clock_now();
	count = engine_fast_send_udp(qp, &wr, now, qp_budget(l, qp, now), most, payload, packet);
	if (unlikely(!count))
		return wr;
	atomic_store_explicit(&l->last_post, AT_WORK, memory_order_relaxed); /* hints for the helper */
	for (uint32_t i = 0; i < count; i++) {
		tx[i] = (struct link_tx){
			.packet = &packet[i],
			.dgid = &qp->path.dgid,
			.traffic_class = qp->path.traffic_class,
			.hop_limit = qp->path.hop_limit,
			.flow_label = qp->path.flow_label,
			.placed = packet[i].length ? payload : NULL, /* an ACK has no payload */
		};
		payload += packet_bytes(packet);
	}
	transmit(port->link, tx, count);
	set_deadline(l, qp);
	atomic_store_explicit(&l->last_post, now, memory_order_relaxed);
	return wr;
}

/* ---- the post table ---- */

/* A row: posts and sends as many requests as possible, from the first on; returns the rest. NULL: the opcode has no
 * fast path. */
typedef struct ibv_send_wr *post_fn(struct qp *qp, struct ibv_send_wr *wr);

#define OPCODES 8 /* enum ibv_wr_opcode up to this; all opcodes with a row are below */

static post_fn *const fast[LANES][OPCODES] = {
	[LANE_UDP] = {[IBV_WR_SEND] = post_udp, [IBV_WR_SEND_WITH_IMM] = post_udp},
	[LANE_RING] = {[IBV_WR_SEND] = post_ring,
		       [IBV_WR_SEND_WITH_IMM] = post_ring,
		       [IBV_WR_RDMA_WRITE_WITH_IMM] = post_ring},
	[LANE_MEMORY] = {[IBV_WR_SEND] = post_ring,
			 [IBV_WR_SEND_WITH_IMM] = post_ring,
			 [IBV_WR_RDMA_WRITE_WITH_IMM] = post_ring,
			 [IBV_WR_RDMA_WRITE] = engine_post_onesided,
			 [IBV_WR_RDMA_READ] = engine_post_onesided,
			 [IBV_WR_ATOMIC_CMP_AND_SWP] = engine_post_onesided,
			 [IBV_WR_ATOMIC_FETCH_AND_ADD] = engine_post_onesided},
	[LANE_DATAGRAM] = {[IBV_WR_SEND] = post_datagrams, [IBV_WR_SEND_WITH_IMM] = post_datagrams},
};

FAST_INLINE post_fn *find_row(const struct qp *qp, const struct ibv_send_wr *wr)
{
	if (unlikely(!qp_is_idle(qp) || (unsigned)wr->opcode >= OPCODES || loop_is_inert(loop_of(qp))))
		return NULL;
	return fast[qp->lane][wr->opcode];
}

/* ---- the queue ---- */

/* True if a thread is bound to run the QP soon, so the request may wait. UC and UD get no ACK to wait for; but a thread
 * that posts one request after another polls in between. */
static bool post_may_wait(struct qp *qp) REQUIRES(qp->lock)
{
	return likely(is_reliable(qp)) ? engine_awaits_answer(qp) : clock_now() < qp->loop.sent_at + SENT_LATELY;
}

void loop_posting(struct qp *qp)
{
	if (unlikely(qp->path.local_peer && !qp->req.lossless && !loop_is_inert(loop_of(qp))))
		local_meet(qp);
}

/* True for one post in NOTED of this thread: posts to a local peer take little time. */
static bool is_post_noted(void)
{
	static _Thread_local uint32_t posts;

	return posts++ % NOTED == 0;
}

/* An idle connection sends at once. With packets in flight, an ACK or the timer will run the QP; so small requests may
 * wait for it, or for the next poll, to leave as one train. */
void loop_posted(struct qp *qp)
{
	struct loop *l = loop_of(qp);
	uint32_t backlog;
	uint64_t now;

	if (unlikely(loop_is_inert(l)))
		return;
	backlog = engine_backlog(qp, TRAIN_CHARGE);
	if (backlog < TRAIN_CHARGE && !qp->req.lossless && post_may_wait(qp)) {
		make_ready(l, qp);
		return;
	}
	if (qp->req.lossless && !is_post_noted()) {
		run_qp(l, qp, clock_about(), false);
		return;
	}
	now = clock_now();
	atomic_store_explicit(&l->last_post, AT_WORK, memory_order_relaxed); /* hints for the helper */
	run_qp(l, qp, now, qp->answers_first && !qp->req.lossless);
	atomic_store_explicit(&l->last_post, backlog < SOON ? now : clock_now(), memory_order_relaxed);
}

/* Posts what the first row has left: by other rows, then by the queue. `declined`: the request that the last row
 * declined. */
static __attribute__((noinline)) int post_rest(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr *declined,
					       struct ibv_send_wr **bad) REQUIRES(qp->lock)
{
	int error;
	post_fn *row;

	if (unlikely(loop_is_inert(loop_of(qp)))) /* after fork, the queue may be torn: see cqs_forget() */
		return 0;
	while (wr && wr != declined && (row = find_row(qp, wr))) {
		declined = wr;
		wr = row(qp, wr);
	}
	if (!wr)
		return 0;
	loop_posting(qp);
	error = engine_post_send(qp, wr, bad);
	loop_posted(qp); /* after an error too: requests before the bad one are posted */
	return error;
}

FAST_INLINE int post_all(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) REQUIRES(qp->lock)
{
	struct ibv_send_wr *first = wr;
	post_fn *row = wr ? find_row(qp, wr) : NULL;

	if (likely(row))
		wr = row(qp, wr);
	return unlikely(wr) ? post_rest(qp, wr, row ? first : NULL, bad) : 0;
}

int loop_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int error;

	qp_fetch(qp);
	lock_take(&qp->lock);
	error = post_all(qp, wr, bad);
	lock_drop(&qp->lock);
	return error;
}

int loop_post_batch(struct qp *qp, struct ibv_send_wr *wr, uint32_t count, struct ibv_send_wr **bad)
{
	int error = ENOMEM;

	*bad = wr;
	lock_take(&qp->lock);
	/* relaxed: the count only grows; a slot that was freed just now may be missed */
	if (qp->sq.tail - atomic_load_explicit(&qp->sq.reclaimed, memory_order_relaxed) + count <= qp->sq.depth)
		error = post_all(qp, wr, bad);
	lock_drop(&qp->lock);
	return error;
}

void loop_run(struct qp *qp)
{
	struct loop *l = loop_of(qp);

	if (unlikely(loop_is_inert(l)))
		return;
	if (hooks_any())
		down_renew(qp);
	loop_posting(qp); /* sets the lane, for the first post */
	run_qp(l, qp, clock_now(), false);
}
