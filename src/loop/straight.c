/* Posting the straight way (engine.h): from the work request to the record in the neighbor's ring.
 * SPDX-License-Identifier: BSD-2-Clause */
#include "link/record.h"
#include "loop/internal.h"
#include "loop/neighbor.h"

/* Room that there is before a request is written, as nobody knows how long it is until then; an ACK finds some after it. */
#define ROOM (sizeof(struct record) + sizeof(struct record_remote) + STRAIGHT_MOST + RING_UNIT + TURN_SPARE)

static bool post_one(struct qp *qp, struct neighbor *n, const struct ibv_send_wr *wr, uint64_t now)
	REQUIRES(qp->lock, n->lock)
{
	char *record = (char *)ring_next(&n->outlet), *payload = record_payload(record, wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
	struct packet p;

	if (local_room(n) < ROOM || !engine_post_straight(qp, wr, now, &p, payload))
		return false;
	record_put_straight(record, &p, qp->path.traffic_class);
	ring_publish(&n->outlet, (uint32_t)(payload - record) + packet_carries(&p));
	return true;
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
