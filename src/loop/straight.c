/* Posting the straight way (engine.h): from the work request to the record in the neighbor's ring.
 * SPDX-License-Identifier: BSD-2-Clause */
#include "link/record.h"
#include "loop/internal.h"
#include "loop/nearby.h"
#include "loop/neighbor.h"
#include "object/ah.h"

/* Room that there is before a request is written, as nobody knows how long it is until then; an ACK finds some after it. */
#define ROOM (RECORD_OVERHEAD + STRAIGHT_MOST + TURN_SPARE)

static void publish(struct neighbor *n, const struct packet *p, const char *payload, const struct path *path) REQUIRES(n->lock)
{
	char *record = (char *)ring_next(&n->outlet);

	record_put_straight(record, p, path->traffic_class, &path->sgid);
	ring_publish(&n->outlet, (uint32_t)(payload - record) + packet_carries(p));
}

static bool post_one(struct qp *qp, struct neighbor *n, const struct ibv_send_wr *wr, uint64_t now)
	REQUIRES(qp->lock, n->lock)
{
	char *payload = record_payload(ring_next(&n->outlet), wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? HAS_RETH : 0);
	struct packet p;

	if (local_room(n) < ROOM || !engine_post_straight(qp, wr, now, &p, payload))
		return false;
	publish(n, &p, payload, &qp->path);
	return true;
}

static bool post_datagram(struct qp *qp, struct flow *to, const struct ibv_send_wr *wr, uint64_t now) NO_LOCK_ANALYSIS
{
	struct neighbor *n = to->near;
	char *payload = record_payload(ring_next(&n->outlet), HAS_DETH);
	struct packet p;

	if (local_room(n) < ROOM || !engine_post_datagram(qp, wr, to, now, &p, payload))
		return false;
	publish(n, &p, payload, &((const struct ah *)wr->wr.ud.ah)->path);
	return true;
}

/* As many as are for the neighbor that the first one is for. */
NO_LOCK_ANALYSIS static struct ibv_send_wr *post_datagrams(struct qp *qp, struct ibv_send_wr *wr)
{
	uint64_t now = clock_about();
	struct flow *to = engine_flow_near(qp, wr, now);
	struct neighbor *n = to ? nearby_enter(to->near) : NULL;

	if (!n)
		return wr;
	while (to && to->near == n && post_datagram(qp, to, wr, now)) {
		wr = wr->next;
		to = wr ? engine_flow_near(qp, wr, now) : NULL;
	}
	local_leave(qp, n, false);
	engine_sent_datagrams(qp);
	note_post(n->loop);
	return wr;
}

NO_LOCK_ANALYSIS struct ibv_send_wr *loop_post_straight(struct qp *qp, struct ibv_send_wr *wr)
{
	struct loop *l = loop_of(qp);
	struct ibv_send_wr *first = wr;
	bool is_timed = qp->req.timeout_at != NEVER;
	struct neighbor *n;
	uint64_t now;

	if (!engine_is_straight(qp) || loop_is_inert(l))
		return wr;
	if (qp->transport == TRANSPORT_UD)
		return post_datagrams(qp, wr);
	n = local_enter(qp);
	if (unlikely(!n))
		return wr;
	now = is_timed ? 0 : clock_about();
	while (wr && post_one(qp, n, wr, now))
		wr = wr->next;
	if (wr == first) {
		lock_drop(&n->lock);
		return wr;
	}
	qp->sent_to = n->outlet.at;
	/* an ACK that was due has left with the first of them */
	atomic_store_explicit(&qp->is_late, false, memory_order_relaxed);
	local_leave(qp, n, false);
	if (!is_timed)
		set_deadline(l, qp);
	note_post(l);
	return wr;
}
