/* SPDX-License-Identifier: BSD-2-Clause */
#include "path.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "object/cq_poll.h"
#include "object/hca_init.h"
#include "sim/dice.h"
#include "sim/heap.h"
#include "tcp.h"
#include "wire/sack.h"

#define HEADERS 62u /* Ethernet with its gap, IP, UDP: beside what packet_bytes() counts */
#define MEMORY	(1u << 20)

struct arrival {
	struct due due;
	uint32_t stream;
	bool forth; /* from the requester */
	struct packet packet;
	uint8_t payload[SACK_PAYLOAD];
};

struct end {
	struct qp *qp;
	uint64_t deadline;
};

struct stream {
	struct end end[2];  /* requester, responder */
	uint64_t completed; /* bytes */
	bool failed;
};

struct way {
	uint64_t free; /* when the bottleneck is free again */
	uint64_t last;
};

/* The whole of one run. */
struct run {
	const struct path_case *c;
	struct dice dice;
	struct hca hca[2];
	struct pd pd[2];
	struct cq cq[2];
	struct mr *mr[2];
	char *memory;
	struct way way[2];
	struct stream stream[PATH_STREAMS];
	struct tcp tcp[PATH_STREAMS];
	struct due_heap arrivals;
	uint64_t now, order, sent;
	struct tx_batch batch;
};

static const union ibv_gid gid[2] = {{.raw = {[10] = 0xff, 0xff, 10, 0, 0, 1}},
				     {.raw = {[10] = 0xff, 0xff, 10, 0, 0, 2}}};

static void nothing(struct cq *cq)
{
}

static void qp_event(struct qp *qp, enum ibv_event_type event)
{
}

static const struct hca_ops ops = {nothing, nothing, qp_event};

/* ---- the path ---- */

/* When so many bytes get there; 0: they do not. */
static uint64_t travel(struct run *r, bool forth, uint32_t bytes)
{
	const struct path_case *c = r->c;
	struct way *w = &r->way[forth];
	double ns_per_byte = 8 / c->gbps;
	uint64_t waits = w->free > r->now ? w->free - r->now : 0;
	uint32_t queue = c->queue ?: (uint32_t)max_of((double)c->round_trip / ns_per_byte, 64.0 * c->mtu);

	if ((double)waits / ns_per_byte + bytes > queue)
		return 0;
	w->free = max_of(w->free, r->now) + (uint64_t)(bytes * ns_per_byte) + 1;
	if (dice_chance(&r->dice, c->loss))
		return 0;
	if (c->late > 0 && dice_chance(&r->dice, c->late))
		return w->free + c->round_trip / 2 + c->round_trip / 10;
	return w->free + c->round_trip / 2 + dice_below(&r->dice, c->jitter + 1);
}

static void path_send(struct run *r, uint32_t stream, bool forth)
{
	for (uint32_t i = 0; i < r->batch.packets; i++) {
		const struct tx *tx = &r->batch.tx[i];
		uint64_t at = travel(r, forth, packet_bytes(&tx->packet) + HEADERS);
		struct arrival *a;

		r->sent += forth;
		if (!at)
			continue;
		a = malloc(sizeof(*a));
		assert(a);
		*a = (struct arrival){.due = {at, r->order++}, .stream = stream, .forth = forth, .packet = tx->packet};
		a->packet.to = gid[forth].raw;
		a->packet.is_uroce = r->c->is_uroce;
		a->packet.payload = (uint8_t *)r->memory;
		if (tx->packet.length <= sizeof(a->payload) && tx->iovs == 1) {
			memcpy(a->payload, r->batch.iov[tx->iov].iov_base, tx->packet.length);
			a->packet.payload = a->payload;
		}
		due_push(&r->arrivals, &a->due);
	}
}

/* ---- the ends ---- */

static void run_end(struct run *r, uint32_t stream, uint32_t which)
{
	struct end *e = &r->stream[stream].end[which];
	bool more;

	lock_take(&e->qp->lock);
	do {
		r->batch.now = r->now;
		r->batch.delay_ack = false;
		r->batch.budget = 256u << 20;
		r->batch.room = UINT32_MAX;
		more = engine_run(e->qp, &r->batch);
		path_send(r, stream, !which);
		batch_done(&r->batch);
	} while (more);
	e->deadline = engine_deadline(e->qp);
	lock_drop(&e->qp->lock);
}

static void post(struct run *r, struct stream *s)
{
	struct ibv_sge sge = {.addr = (uintptr_t)r->memory, .length = r->c->length, .lkey = r->mr[0]->base.lkey};
	struct ibv_send_wr wr = {.wr_id = (uint64_t)(s - r->stream),
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = r->c->reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = (uintptr_t)r->memory, .rkey = r->mr[1]->base.rkey}};
	struct ibv_send_wr *bad;
	int err;

	lock_take(&s->end[0].qp->lock);
	err = engine_post_send(s->end[0].qp, &wr, &bad);
	lock_drop(&s->end[0].qp->lock);
	assert(!err || s->failed);
}

static bool is_counted(const struct run *r)
{
	return r->now - SEC >= r->c->duration / 4;
}

static void take_completions(struct run *r)
{
	struct cqe c;

	while (cq_poll(&r->cq[0], 1, &c) == 1) {
		struct stream *s = &r->stream[c.wr_id];

		s->failed |= c.status != IBV_WC_SUCCESS;
		if (s->failed)
			continue;
		if (is_counted(r))
			s->completed += r->c->length;
		post(r, s);
	}
}

NO_LOCK_ANALYSIS static void arrive(struct run *r)
{
	struct arrival *a = container_of(due_pop(&r->arrivals), struct arrival, due);
	struct end *e = &r->stream[a->stream].end[a->forth];

	lock_take(&e->qp->lock);
	engine_receive(e->qp, &a->packet, &gid[!a->forth], r->now, NULL);
	lock_drop(&e->qp->lock);
	take_completions(r);
	run_end(r, a->stream, a->forth);
	free(a);
}

static void expire(struct run *r, uint32_t stream, uint32_t which)
{
	struct qp *qp = r->stream[stream].end[which].qp;

	lock_take(&qp->lock);
	engine_expire(qp, r->now);
	lock_drop(&qp->lock);
	take_completions(r);
	run_end(r, stream, which);
}

static void modify(struct run *r, struct qp *qp, struct ibv_qp_attr a, enum ibv_qp_state to, int mask)
{
	int err;

	a.qp_state = to;
	lock_take(&qp->lock);
	err = engine_modify(qp, &a, IBV_QP_STATE | mask, r->now);
	lock_drop(&qp->lock);
	assert(!err);
}

static enum ibv_mtu mtu_of(uint32_t bytes)
{
	return bytes >= 4096 ? IBV_MTU_4096 : bytes >= 2048 ? IBV_MTU_2048 : IBV_MTU_1024;
}

static void connect(struct run *r, struct qp *qp, uint32_t peer, uint32_t which)
{
	struct ibv_qp_attr a = {
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.path_mtu = mtu_of(r->c->mtu),
		.dest_qp_num = peer,
		.rq_psn = 77,
		.sq_psn = 77,
		.max_dest_rd_atomic = HCA_MAX_RD_ATOMIC,
		.max_rd_atomic = HCA_MAX_RD_ATOMIC,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};

	modify(r, qp, a, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	qp->path = (struct path){.sgid = gid[which], .dgid = gid[!which], .hop_limit = 64};
	modify(r, qp, a, IBV_QPS_RTR,
	       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		       IBV_QP_MIN_RNR_TIMER);
	modify(r, qp, a, IBV_QPS_RTS,
	       IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void make_ends(struct run *r)
{
	struct ibv_qp_cap cap = {r->c->depth, 1, 1, 1, 0};

	for (uint32_t i = 0; i < 2; i++) {
		if (hca_init(&r->hca[i], &ops, (uint8_t)(i + 1), r->c->seed + i, NULL) ||
		    cq_init(&r->cq[i], &r->hca[i], PATH_STREAMS * r->c->depth))
			abort();
		r->pd[i].hca = &r->hca[i];
		r->mr[i] = mr_register(&r->pd[i], r->memory, MEMORY, (uintptr_t)r->memory,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	}
	for (uint32_t s = 0; s < r->c->streams; s++) {
		struct end *e = r->stream[s].end;

		for (uint32_t i = 0; i < 2; i++) {
			e[i].qp = qp_create(&r->hca[i], &r->pd[i], &r->cq[i], &r->cq[i], NULL, IBV_QPT_RC, &cap, false);
			e[i].deadline = NEVER;
			assert(e[i].qp);
		}
		for (uint32_t i = 0; i < 2; i++)
			connect(r, e[i].qp, e[!i].qp->base.qp_num, i);
		for (uint32_t i = 0; i < r->c->depth; i++)
			post(r, &r->stream[s]);
	}
}

static void run_fini(struct run *r)
{
	due_fini(&r->arrivals);
	for (uint32_t t = 0; t < r->c->tcps; t++)
		tcp_fini(&r->tcp[t]);
	for (uint32_t s = 0; s < r->c->streams; s++)
		for (uint32_t i = 0; i < 2; i++)
			qp_destroy(r->stream[s].end[i].qp);
	for (uint32_t i = 0; i < 2; i++) {
		cq_fini(&r->cq[i]);
		hca_fini(&r->hca[i]);
	}
	free(r->memory);
	free(r);
}

/* One thing happens. */
static void step(struct run *r)
{
	uint64_t when = r->arrivals.count ? r->arrivals.all[0]->at : NEVER;
	uint32_t stream = 0, which = 2, tcp = PATH_STREAMS;

	for (uint32_t s = 0; s < r->c->streams; s++)
		for (uint32_t i = 0; i < 2; i++)
			if (r->stream[s].end[i].deadline < when) {
				when = r->stream[s].end[i].deadline;
				stream = s;
				which = i;
			}
	for (uint32_t t = 0; t < r->c->tcps; t++)
		if (tcp_next(&r->tcp[t]) < when) {
			when = tcp_next(&r->tcp[t]);
			tcp = t;
		}
	r->now = max_of(r->now, when);
	if (tcp < PATH_STREAMS)
		tcp_step(&r->tcp[tcp], r->now);
	else if (which < 2)
		expire(r, stream, which);
	else
		arrive(r);
}

/* A segment of a TCP enters the path: when it arrives, or 0. */
static uint64_t carry(void *arg, uint32_t bytes, uint64_t now)
{
	struct run *r = arg;

	r->now = now;
	return travel(r, true, bytes);
}

static struct path_result result_of(struct run *r)
{
	double seconds = (double)r->c->duration * 0.75 / (double)SEC, most = r->c->gbps * 1e9 / 8 * seconds;
	struct path_result result = {0};
	uint64_t resent = 0;

	for (uint32_t i = 0; i < r->c->streams; i++) {
		result.goodput[i] = (double)r->stream[i].completed / most;
		result.failed |= r->stream[i].failed;
		result.total += result.goodput[i];
		resent += r->stream[i].end[0].qp->resent;
	}
	for (uint32_t i = 0; i < r->c->tcps; i++) {
		result.goodput[r->c->streams + i] = (double)tcp_delivered(&r->tcp[i]) / most;
		result.total += result.goodput[r->c->streams + i];
	}
	result.resent = r->sent ? (double)resent / (double)r->sent : 0;
	return result;
}

struct path_case path_usual(uint64_t round_trip, double loss)
{
	return (struct path_case){.gbps = 10,
				  .loss = loss,
				  .round_trip = round_trip,
				  .mtu = 4096,
				  .length = 65536,
				  .depth = 1024,
				  .streams = 1,
				  .is_uroce = true,
				  .seed = 1};
}

struct path_result path_run(const struct path_case *c)
{
	struct run *r = aligned_alloc(64, (sizeof(*r) + 63) & ~63ul);
	struct path_result result;
	bool counted = false;

	if (!r)
		abort();
	memset(r, 0, sizeof(*r));
	r->c = c;
	r->dice.state = c->seed * 0x2545f4914f6cdd1du;
	r->now = SEC;
	r->memory = calloc(1, MEMORY);
	make_ends(r);
	for (uint32_t s = 0; s < c->streams; s++)
		run_end(r, s, 0);
	for (uint32_t t = 0; t < c->tcps; t++)
		tcp_init(&r->tcp[t], carry, r, c->round_trip / 2, r->now);
	while (r->now < SEC + c->duration) {
		step(r);
		if (!counted && is_counted(r))
			for (uint32_t t = 0; t < c->tcps; t++)
				tcp_count(&r->tcp[t]);
		counted = is_counted(r);
	}
	result = result_of(r);
	run_fini(r);
	return result;
}

double path_fairness(const double *goodput, uint32_t count)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < count; i++) {
		sum += goodput[i];
		squares += goodput[i] * goodput[i];
	}
	return squares > 0 ? sum * sum / (count * squares) : 0;
}
