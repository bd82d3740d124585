/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting the fast path (engine.h): from the work request to the record in the local peer's ring. */
#include "engine/straight.h"
#include "link/record.h"
#include "loop/internal.h"
#include "loop/nearby.h"
#include "loop/local_peer.h"
#include "object/ah.h"

/* Room that there is before a request is written, as nobody knows how long it is until then; an ACK finds some after
 * it. */
#define ROOM (RECORD_OVERHEAD + STRAIGHT_MOST + BATCH_SPARE)

STRAIGHT_INLINE bool straight_has_room(struct local_peer *n) REQUIRES(n->lock)
{
	return likely(ring_has_room(&n->tx_ring, n->reserved + ROOM));
}

STRAIGHT_INLINE void straight_publish(struct local_peer *n, struct ring_mark *at, const struct packet *p,
				      uint32_t header, const struct path *path) REQUIRES(n->lock)
{
	record_put_straight(at, p, path->traffic_class, &path->sgid);
	ring_publish_at(&n->tx_ring, at, header + packet_carries(p));
}

/* False: it is gone, or not there yet. */
STRAIGHT_INLINE bool straight_enter(struct local_peer *n) TRY_ACQUIRE(true, n->lock) NO_LOCK_ANALYSIS
{
	lock_take(&n->lock);
	if (likely(local_peer_state(n) == LOCAL_PEER_MET))
		return true;
	lock_drop(&n->lock);
	return false;
}

/* As local_leave(), but the lock's own barrier does for the ring as well. The local peer may be gone by then, but is
 * still there, with what ring_is_asleep() looks at, as long as a QP of its is locked. */
STRAIGHT_INLINE void straight_leave(struct local_peer *n) RELEASE(n->lock)
{
	lock_drop_fully(&n->lock);
	if (ring_is_asleep(&n->tx_ring))
		local_wake(n);
}

STRAIGHT_INLINE bool straight_post_one(struct qp *qp, struct local_peer *n, const struct ibv_send_wr *wr,
				       bool is_common) REQUIRES(qp->lock, n->lock)
{
	uint32_t header = record_header(!is_common && wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? HAS_RETH : 0);
	struct ring_mark *at = ring_next(&n->tx_ring);
	struct packet p;

	if (!straight_has_room(n) || !engine_post_straight(qp, wr, &p, (char *)at + header, is_common))
		return false;
	straight_publish(n, at, &p, header, &qp->path);
	return true;
}

static __attribute__((noinline)) struct ibv_send_wr *post_list(struct qp *qp, struct local_peer *n,
							       struct ibv_send_wr *wr) REQUIRES(qp->lock, n->lock)
{
	while (wr && straight_post_one(qp, n, wr, false))
		wr = wr->next;
	return wr;
}

STRAIGHT_INLINE bool post_datagram(struct qp *qp, struct flow *to, const struct ibv_send_wr *wr,
				   uint64_t now) NO_LOCK_ANALYSIS
{
	struct local_peer *n = to->near;
	struct ring_mark *at = ring_next(&n->tx_ring);
	uint32_t header = record_header(HAS_DETH);
	struct packet p;

	if (!straight_has_room(n) || !engine_post_datagram(qp, wr, to, now, &p, (char *)at + header))
		return false;
	straight_publish(n, at, &p, header, &((const struct ah *)wr->wr.ud.ah)->path);
	return true;
}

/* The helper is told of one post in so many: what goes to a local peer goes fast. */
STRAIGHT_INLINE void note_posts(struct qp *qp, uint32_t before) REQUIRES(qp->lock)
{
	if (unlikely((qp->sq.tail ^ before) / NOTED))
		note_post(loop_of(qp));
}

/* As many as are for the local peer that the first one is for. */
NO_LOCK_ANALYSIS static __attribute__((noinline)) struct ibv_send_wr *post_datagrams(struct qp *qp,
										     struct ibv_send_wr *wr)
{
	uint64_t now = clock_about();
	struct flow *to = engine_flow_near(qp, wr, now);
	struct local_peer *n = to ? to->near : NULL;
	const struct ibv_send_wr *first = wr;
	uint32_t before = qp->sq.tail;

	if (unlikely(!n || !straight_enter(n)))
		return wr;
	while (to && to->near == n && post_datagram(qp, to, wr, now)) {
		wr = wr->next;
		to = unlikely(wr) ? engine_flow_near(qp, wr, now) : NULL;
	}
	straight_leave(n);
	engine_sent_datagrams(qp, first);
	note_posts(qp, before);
	return wr;
}

static __attribute__((noinline)) void begin_timer(struct loop *l, struct qp *qp) REQUIRES(qp->lock)
{
	engine_time_straight(qp, clock_about());
	set_deadline(l, qp);
}

NO_LOCK_ANALYSIS struct ibv_send_wr *loop_post_straight(struct qp *qp, struct ibv_send_wr *wr)
{
	struct local_peer *n = qp->path.local_peer;
	uint32_t before = qp->sq.tail;

	if (!engine_is_straight(qp) || unlikely(loop_is_inert(loop_of(qp))))
		return wr;
	if (unlikely(!n))
		return qp->transport == TRANSPORT_UD ? post_datagrams(qp, wr) : wr;
	if (unlikely(!straight_enter(n)))
		return wr;
	if (likely(!wr->next) && straight_is_common(qp, wr))
		wr = straight_post_one(qp, n, wr, true) ? NULL : wr;
	else
		wr = post_list(qp, n, wr);
	if (unlikely(qp->sq.tail == before)) {
		lock_drop(&n->lock);
		return wr;
	}
	qp->sent_to = n->tx_ring.at;
	/* an ACK that was due has left with the first of them */
	atomic_store_explicit(&qp->ack_is_delayed, false, memory_order_relaxed);
	straight_leave(n);
	if (!engine_straight_is_timed(qp))
		begin_timer(loop_of(qp), qp);
	note_posts(qp, before);
	return wr;
}
