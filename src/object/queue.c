/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/queue.h"

#include <errno.h>
#include <string.h>

#include "base/cause.h"
#include "base/config.h"
#include "memory/gpu.h"

static_assert(HCA_MAX_INLINE <= UINT16_MAX && HCA_MAX_SGE * sizeof(struct ibv_sge) <= UINT16_MAX, "sq->max_inline");

static uint32_t queue_slots(uint32_t depth)
{
	uint32_t n = 1;

	while (n < depth)
		n *= 2;
	return n;
}

int sq_init(struct sq *sq, struct pd *pd, uint32_t depth, uint32_t max_sge, uint32_t max_inline, uint32_t after)
{
	uint32_t room = max_of(max_sge * (uint32_t)sizeof(struct ibv_sge), max_inline);
	uint32_t offered = config_enum(CONFIG_QUEUES) ? max_inline : room;

	memset(sq, 0, sizeof(*sq));
	sq->depth = depth;
	sq->max_sge = max_sge;
	sq->fast_inline = gpu_in_use() ? 0 : offered;
	sq->max_inline = offered; /* all of the room, as adapters round up too and programs rely on it */
	sq->mask = queue_slots(depth) - 1;
	sq->stride = (sizeof(struct wqe) + room + after + CACHE_LINE - 1) & ~(CACHE_LINE - 1u);
	sq->ring = buffer_alloc(pd, (size_t)(sq->mask + 1) * sq->stride, BUFFER_SEND, &sq->from);
	return sq->ring ? 0 : -ENOMEM;
}

void sq_fini(struct sq *sq)
{
	buffer_free(sq->ring, BUFFER_SEND, sq->from);
	sq->ring = NULL;
}

static char *rq_ring(struct rq *rq, uint32_t mask, struct pd **from)
{
	return buffer_alloc(rq->pd, (size_t)(mask + 1) * rq->stride, rq->kind, from);
}

int rq_init(struct rq *rq, struct pd *pd, enum buffer_kind kind, uint32_t depth, uint32_t max_sge)
{
	lock_set_rank(&rq->lock, RANK_RQ);
	rq->pd = pd;
	rq->kind = kind;
	rq->depth = depth;
	rq->max_sge = max_sge;
	rq->mask = queue_slots(depth) - 1;
	rq->stride = sizeof(struct rwqe) + max_sge * sizeof(struct ibv_sge);
	rq->head = rq->tail = 0;
	list_init(&rq->credits);
	atomic_init(&rq->reclaimed, 0);
	rq->ring = rq_ring(rq, rq->mask, &rq->from);
	return rq->ring ? 0 : -ENOMEM;
}

void rq_fini(struct rq *rq)
{
	buffer_free(rq->ring, rq->kind, rq->from);
	rq->ring = NULL;
}

void rq_grant(struct rq *rq, struct credit *credit, uint32_t receives)
{
	if (credit->receives && !receives)
		list_remove(&credit->link);
	else if (receives && !credit->receives)
		list_append(&rq->credits, &credit->link);
	rq->granted += receives - credit->receives;
	credit->receives = receives;
	credit->period = rq->period;
}

bool rq_take(struct rq *rq, struct credit *credit, struct rwqe *out, uint32_t *position)
{
	const struct rwqe *r = rq_at(rq, rq->head);

	rq_use_credit(rq, credit);
	if (rq->head == rq->tail)
		return false;
	memcpy(out, r, rwqe_bytes(r));
	*position = rq->head++;
	return true;
}

uint64_t rq_fill(struct rwqe *r, const struct ibv_recv_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		r->sge[i] = wr->sg_list[i];
		length += wr->sg_list[i].length;
	}
	return length;
}

int rq_resize(struct rq *rq, uint32_t depth)
{
	struct rq to = {.mask = queue_slots(depth) - 1, .stride = rq->stride};

	if (depth < rq_posted(rq))
		return -EINVAL;
	to.ring = rq_ring(rq, to.mask, &to.from);
	if (!to.ring)
		return -ENOMEM;
	for (uint32_t i = rq->head; i != rq->tail; i++)
		memcpy(rq_at(&to, i), rq_at(rq, i), rq->stride);
	buffer_free(rq->ring, rq->kind, rq->from);
	rq->ring = to.ring;
	rq->from = to.from;
	rq->mask = to.mask;
	rq->depth = depth;
	return 0;
}

void rq_refused(const struct rq *rq, uint32_t qpn, const struct ibv_recv_wr *wr, int error)
{
	if (error == ENOMEM)
		cause_say(CAUSE_RECEIVE_QUEUE_FULL,
			  "QP 0x%x takes no receive: of %u, %u wait for a message, and the completions of %u were not "
			  "polled",
			  qpn, rq->depth, rq_posted(rq),
			  rq->tail - atomic_load_explicit(&rq->reclaimed, memory_order_relaxed) - rq_posted(rq));
	else if (!wr->sg_list && wr->num_sge > 0)
		cause_say(CAUSE_RECEIVE_SGES, "QP 0x%x takes no receive of %d SGEs whose list is NULL", qpn,
			  wr->num_sge);
	else
		cause_say(CAUSE_RECEIVE_SGES, "QP 0x%x takes no receive of %d SGEs: at most %u", qpn, wr->num_sge,
			  rq->max_sge);
}
