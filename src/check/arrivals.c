/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/arrivals.h"

#include <infiniband/verbs.h>
#include <stdatomic.h>

#include "check/buffers.h"
#include "check/msan.h"
#include "check/objects.h"
#include "check/peers.h"
#include "check/placed.h"
#include "check/queues.h"
#include "check/races.h"
#include "check/request.h"
#include "check/watch.h"
#include "object/checker.h"
#include "object/qp.h"
#include "wire/packet.h"

static struct queues *checked_queues(const struct qp *qp, bool receives) REQUIRES(objects_lock)
{
	const struct object *o = receives && qp->srq ? object_find(CHECK_SRQ, qp->srq) : object_find(CHECK_QP, qp);

	return o ? o->queues : NULL;
}

/* The first request that brings bytes and has none yet. All of them are after it, so any will do. */
static struct request *first_waiting(struct list *requests) REQUIRES(objects_lock)
{
	list_each_safe (l, requests) {
		struct request *r = container_of(l, struct request, link);

		if (r->brings && !r->begun)
			return r;
	}
	return NULL;
}

static struct request *waiting_of(struct list *requests, uint64_t wr_id) REQUIRES(objects_lock)
{
	list_each_safe (l, requests) {
		struct request *r = container_of(l, struct request, link);

		if (r->brings && r->wr_id == wr_id && !r->is_placed)
			return r;
	}
	return NULL;
}

static void request_begins(struct request *r) REQUIRES(objects_lock)
{
	if (!r || r->begun)
		return;
	buffers_arrive(r);
	r->begun = true;
	placed_request(r);
}

static void note_write(struct queues *q, const struct qp *qp, const struct packet *p, bool first) REQUIRES(objects_lock)
{
	if (first && q) {
		q->write_at = p->va;
		q->write_length = p->dma_length;
	}
	races_heard(qp, false);
	if (q)
		placed_note((struct placed){q->write_at, q->write_length, qp->base.qp_num, true});
}

static void note_atomic(const struct qp *qp, uint64_t at) REQUIRES(objects_lock)
{
	races_heard(qp, false);
	placed_note((struct placed){at, sizeof(uint64_t), qp->base.qp_num, true});
}

static void packet_arrives(const struct qp *qp, const struct packet *p)
{
	uint32_t flags = opcode_info[p->opcode].flags;
	struct queues *q;

	lock_take(&objects_lock);
	q = checked_queues(qp, flags & IS_SEND);
	if (q && (flags & IS_SEND) && (flags & IS_FIRST))
		request_begins(first_waiting(&q->receives));
	else if (q && (flags & IS_RESPONSE) && (flags & IS_FIRST) && (flags & (IS_READ | IS_ATOMIC)))
		request_begins(first_waiting(&q->sends));
	else if (flags & (IS_WRITE | IS_ATOMIC_WRITE))
		note_write(q, qp, p, flags & IS_FIRST);
	else if ((flags & IS_ATOMIC) && (flags & IS_REQUEST))
		note_atomic(qp, p->va);
	msan_arrives(qp, p);
	peers_arrive(qp, p);
	lock_drop(&objects_lock);
}

static void onesided_begins(const struct qp *qp, uint64_t wr_id)
{
	struct queues *q;

	lock_take(&objects_lock);
	q = checked_queues(qp, false);
	if (q)
		request_begins(waiting_of(&q->sends, wr_id));
	lock_drop(&objects_lock);
}

static void request_completes(const struct qp *qp, uint64_t wr_id, uint32_t length, bool is_send)
{
	struct request *r = NULL;
	struct queues *q;

	lock_take(&objects_lock);
	q = checked_queues(qp, !is_send);
	if (q)
		r = waiting_of(is_send ? &q->sends : &q->receives, wr_id);
	if (r) {
		r->begun = r->is_placed = true;
		placed_request(r);
		buffers_placed(r, length);
		watch_look(r);
	}
	if (!is_send)
		peers_message(qp);
	lock_drop(&objects_lock);
}

/* Notes an access to the peer's memory, if the peer is a queue pair of this process. */
static void memory_accessed(const struct qp *qp, unsigned opcode, uint64_t address, uint64_t length)
{
	uint32_t qpn = qp->attr.dest_qp_num;

	if (opcode == IBV_WR_RDMA_READ)
		return;
	lock_take(&objects_lock);
	if (queues_of_number(qpn))
		placed_note((struct placed){address, length, qpn, true});
	lock_drop(&objects_lock);
}

void arrivals_start(void)
{
	static const struct checker listening = {packet_arrives, onesided_begins, request_completes, memory_accessed};

	checker = &listening;
}
