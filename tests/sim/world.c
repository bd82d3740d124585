/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "objects.h"
#include "own.h"
#include "shortage.h"

#define TIME_LIMIT   (1200 * SEC) /* of virtual time */
#define EVENTS_LIMIT 50000000

static struct node *node_of(struct hca *hca)
{
	return container_of(hca, struct node, hca);
}

static struct world *world_of(struct node *n)
{
	return container_of(n - n->index, struct world, node[0]);
}

static void cq_event(struct cq *cq)
{
	struct node *n = node_of(cq->hca);

	n->woken[cq - n->cq] = true;
}

static void cq_error(struct cq *cq)
{
	failed(world_of(node_of(cq->hca)), NULL, "a CQ is full");
}

static struct end *end_of(struct world *w, const struct qp *qp)
{
	for (uint32_t i = 0; i < w->ends; i++)
		if (w->end[i].qp == qp)
			return &w->end[i];
	failed(w, NULL, "an event for no QP");
}

static void qp_event(struct qp *qp, enum ibv_event_type event)
{
	struct world *w = world_of(node_of(qp->hca));
	struct end *e = end_of(w, qp);

	say(w, e, "event %s", ibv_event_type_str(event));
	e->event[event]++;
	if (event == IBV_EVENT_SQ_DRAINED) {
		expect(w, e, e->draining, "SQ_DRAINED came again");
		expect(w, e, qp->req.una.v == qp->req.high.v, "SQ_DRAINED with requests on the way");
		e->draining = false;
	}
	if (event == IBV_EVENT_QP_FATAL || event == IBV_EVENT_QP_REQ_ERR || event == IBV_EVENT_QP_ACCESS_ERR)
		e->fatal = true;
}

static const struct hca_ops ops = {cq_event, cq_error, qp_event};

static void node_create(struct world *w, uint32_t index)
{
	struct node *n = &w->node[index];

	n->index = index;
	objects_hca(w, n, &ops);
	n->pd.hca = n->other_pd.hca = &n->hca;
	for (int i = 0; i < WORLD_CQS; i++)
		objects_cq(w, n, &n->cq[i], 2048);
	n->counter_mr = objects_region(w, n, &n->pd, &n->counter, sizeof(n->counter), 0x8000,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
}

static double draw_rate(struct dice *d, double override, double most)
{
	double rate = dice_chance(d, 0.5) ? 0 : most * (double)dice_below(d, 1000) / 1000;

	return override >= 0 ? override : rate;
}

static struct quality draw_quality(struct world *w, const struct options *o)
{
	static const uint64_t latencies[] = {300, 2 * USEC, 20 * USEC, 200 * USEC};
	static const uint64_t speeds[] = {0, 10, 80, 400}; /* ns per KiB: 100 Gb/s is 82 */
	struct dice *d = &w->dice;
	struct quality q = {
		.loss = draw_rate(d, o->loss, dice_chance(d, 0.5) ? 0.02 : 0.2),
		.duplicate = draw_rate(d, o->duplicate, 0.1),
		.corrupt = draw_rate(d, o->corrupt, 0.05),
		.reorder = draw_rate(d, o->reorder, 0.1),
		.latency = dice_pick(d, latencies),
		.ns_per_kib = dice_pick(d, speeds),
		.queue = dice_chance(d, 0.7) ? 0 : (uint32_t)dice_between(d, 4, 200),
		.mark = dice_chance(d, 0.7) ? 0 : (uint32_t)dice_between(d, 1, 50),
		.in_order = dice_chance(d, 0.7),
		.fair = true,
	};

	q.jitter = dice_below(d, q.latency);
	q.detour = dice_chance(d, 0.8) ? 10 * q.latency : 3 * MSEC;
	q.ipv4 = q.corrupt == 0 && dice_chance(d, 0.5); /* see icrc.h on IPv4 and damage */
	q.uroce = dice_chance(d, 0.6);
	return q;
}

/* All on one host: each end finds out in its own time. */
static void share_host(struct world *w, struct quality *q)
{
	static const uint32_t mtus[] = {256, 4096, 16384};

	static const uint32_t packets[] = {4, 6, 32}; /* four: a quarter, at which who is stuck goes on, takes one */
	uint32_t size;

	w->lane_mtu = dice_pick(&w->dice, mtus);
	size = dice_pick(&w->dice, packets) * (w->lane_mtu + BATCH_OVERHEAD + BATCH_SPARE);
	for (int from = 0; from < NETWORK_NODES; from++)
		for (int to = 0; to < NETWORK_NODES; to++)
			w->lane[from][to] = (struct sim_lane){.size = size, .tell_at = NEVER};
	w->stops_left = dice_chance(&w->dice, 0.5) ? 0 : (uint32_t)dice_between(&w->dice, 1, 5);
	w->stop_at = w->now + dice_below(&w->dice, 50 * w->style.pace + 1);
	q->loss = q->duplicate = q->corrupt = q->reorder = 0;
	q->queue = q->mark = 0;
	q->in_order = true;
}

static psn_t draw_psn(struct dice *d)
{
	return psn((uint32_t)(dice_chance(d, 0.5) ? dice_roll(d) : 0xfffff0 + dice_below(d, 32)));
}

/* What each end wants of its own side. */
static void draw_attributes(struct world *w, struct end *a, struct end *b)
{
	struct dice *d = &w->dice;
	enum ibv_mtu mtu = (enum ibv_mtu)dice_between(d, IBV_MTU_256, IBV_MTU_4096);
	struct end *ends[] = {a, b};

	for (int i = 0; i < 2; i++) {
		struct end *e = ends[i], *p = ends[!i];
		uint32_t most = w->style.max_length > 1 << 20 ? 6 : w->style.max_length > 65536 ? 20 : 40;

		e->peer = p;
		e->attr.path_mtu = mtu;
		e->attr.sq_psn = p->attr.rq_psn = draw_psn(d).v;
		e->attr.max_rd_atomic = (uint8_t)dice_between(d, dice_chance(d, 0.1) ? 0 : 1, 16);
		p->attr.max_dest_rd_atomic = (uint8_t)(e->attr.max_rd_atomic + dice_below(d, 3));
		if (w->style.max_length > 1 << 20 || dice_chance(d, 0.1))
			e->attr.max_rd_atomic = e->attr.max_rd_atomic ? e->attr.max_rd_atomic : 1;
		p->attr.max_dest_rd_atomic = max_of(p->attr.max_dest_rd_atomic, e->attr.max_rd_atomic);
		e->attr.min_rnr_timer = (uint8_t)dice_between(d, 1, 18);
		e->attr.timeout = (uint8_t)dice_between(d, 8, 15);
		e->attr.retry_cnt = 7;
		e->attr.rnr_retry = 7;
		e->planned = (uint32_t)dice_between(d, 1, most);
		e->room = e->planned;
		e->op = memset(own(NULL, e->room * sizeof(*e->op)), 0, e->room * sizeof(*e->op));
		e->message = memset(own(NULL, e->room * sizeof(*e->message)), 0, e->room * sizeof(*e->message));
	}
}

static void make_pair(struct world *w)
{
	struct dice *d = &w->dice;
	uint32_t from = (uint32_t)dice_below(d, w->nodes);
	/* now and then a node talks to itself */
	uint32_t to = dice_chance(d, 0.05) ? from : (from + 1 + (uint32_t)dice_below(d, w->nodes - 1)) % w->nodes;
	struct end *a = &w->end[w->ends++], *b = &w->end[w->ends++];

	draw_attributes(w, a, b);
	end_create(a, w, &w->node[from]);
	end_create(b, w, &w->node[to]);
}

void world_draw(struct world *w, uint64_t seed, const struct options *options, struct quality *quality)
{
	w->seed = seed;
	w->dice.state = seed * 0x2545f4914f6cdd1du;
	w->verbose = options->verbose;
	w->now = SEC;
	workload_draw(w);
	*quality = draw_quality(w, options);
}

void world_init(struct world *w, uint64_t seed, const struct options *options)
{
	struct quality quality;
	uint32_t pairs;

	world_draw(w, seed, options, &quality);
	if (seed % 8 == 0)
		share_host(w, &quality);
	if (shortage.chance && dice_chance(&w->dice, 0.3))
		w->style.drain = 0.05; /* where responder_start() allocates again */
	network_init(&w->network, &quality, dice_roll(&w->dice));
	w->nodes = dice_chance(&w->dice, 0.85) ? 2 : 3;
	for (uint32_t i = 0; i < w->nodes; i++)
		node_create(w, i);
	pairs = w->style.max_length > 65536 ? 1
					    : (uint32_t)dice_between(&w->dice, 1, dice_chance(&w->dice, 0.7) ? 2 : 6);
	while (pairs--)
		make_pair(w);
	scenario_draw(w, options->scenario);
	for (uint32_t i = 0; i < w->ends; i++) {
		struct end *e = &w->end[i];

		e->target_rkey = e->peer->target_mr->base.rkey;
		e->tick_at = w->now + dice_below(&w->dice, w->style.pace + 1);
		if (w->lane_mtu && dice_chance(&w->dice, 0.5))
			e->lane_at = w->now + dice_below(&w->dice, 20 * w->style.pace + 1);
		end_connect(e);
	}
	say(w, NULL,
	    "scenario %s: lane MTU %u, %u nodes, %u ends, messages up to %u, loss %.3f duplicate %.3f corrupt %.3f "
	    "reorder %.3f",
	    w->scenario->name, w->lane_mtu, w->nodes, w->ends, w->style.max_length, quality.loss, quality.duplicate,
	    quality.corrupt, quality.reorder);
}

/* Who waits for room in that lane goes on when there is enough to be worth it: local_unstick(). */
static void unstick(struct world *w, uint32_t from, uint32_t to)
{
	const struct sim_lane *l = &w->lane[from][to];

	for (uint32_t i = 0; i < w->ends && lane_room(l) >= l->size / 4; i++) {
		struct end *e = &w->end[i];

		if (e->stuck && e->node->index == from && e->peer->node->index == to) {
			e->stuck = false;
			e->run_at = w->now + dice_below(&w->dice, 2 * USEC);
		}
	}
}

/* The packet comes out of the lane, for any node. */
static void take_out(struct world *w, const struct packet *p, const union ibv_gid *from, uint32_t to)
{
	for (uint32_t i = 0; i < w->nodes; i++)
		if (!memcmp(&w->network.gid[i], from, sizeof(*from)) &&
		    lane_read(&w->lane[i][to], lane_bytes(p->length), w->now + dice_below(&w->dice, 50 * USEC)))
			unstick(w, i, to);
}

static void tell(struct world *w, uint32_t lane)
{
	uint32_t from = lane / NETWORK_NODES, to = lane % NETWORK_NODES;

	lane_tell(&w->lane[from][to]);
	unstick(w, from, to);
}

static void arrive(struct world *w)
{
	const struct packet *p;
	union ibv_gid from;
	uint32_t to;

	p = network_arrive(&w->network, &to, &from);
	if (p && p->mtu)
		take_out(w, p, &from, to);
	for (uint32_t i = 0; p && i < w->ends; i++) {
		struct end *e = &w->end[i];

		if (e->node->index == to && e->qpn == p->dest_qpn && e->state != END_DEAD) {
			end_receive(e, p, &from);
			return;
		}
	}
}

static void expire(struct world *w, struct node *n)
{
	struct timer *t = timers_pop(&n->hca.timers, w->now);
	struct end *e;

	if (!t || w->network.dead[n->index])
		return;
	e = end_of(w, container_of(t, struct qp, timer));
	if (e->state != END_DEAD)
		end_expire(e);
}

enum happening {
	NOTHING,
	ARRIVAL,
	TIMER,
	RUN,
	TICK,
	TELL,
	STOP,
};

/* A process does nothing while it is stopped. */
static uint64_t awake(const struct world *w, const struct node *n, uint64_t when)
{
	return max_of(when, w->network.stopped_until[n->index]);
}

/* All connections of that process go through lanes: by the network, time-outs count while it is stopped. */
static bool may_stop(const struct world *w, const struct node *n)
{
	for (uint32_t i = 0; i < w->ends; i++) {
		const struct end *e = &w->end[i];

		if (e->state != END_DEAD && (e->node == n || e->peer->node == n) &&
		    (!e->qp->req.lossless || e->qp->req.changing))
			return false;
	}
	return true;
}

static void stop_somebody(struct world *w)
{
	struct node *n = &w->node[dice_below(&w->dice, w->nodes)];
	uint64_t most = dice_chance(&w->dice, 0.3) ? 5 * SEC : MSEC;

	w->stop_at = w->now + dice_below(&w->dice, 100 * w->style.pace + 1);
	if (!may_stop(w, n) || w->network.dead[n->index] || w->now < w->network.stopped_until[n->index])
		return;
	w->stops_left--;
	most = dice_below(&w->dice, most);
	w->network.stopped_until[n->index] = w->now + most;
	w->stopped += most;
	say(w, NULL, "node %u is stopped until %llu.%09llu", n->index, w->network.stopped_until[n->index] / SEC,
	    w->network.stopped_until[n->index] % SEC);
}

/* What comes next, and to whom. */
static enum happening next(struct world *w, uint64_t *when, uint32_t *who)
{
	enum happening what = NOTHING;

#define LATER(time, kind, number)        \
	do {                             \
		uint64_t later = (time); \
		if (later < *when) {     \
			*when = later;   \
			what = (kind);   \
			*who = (number); \
		}                        \
	} while (0)
	*when = NEVER;
	LATER(network_next(&w->network), ARRIVAL, 0);
	for (uint32_t i = 0; i < w->nodes; i++)
		LATER(awake(w, &w->node[i], timers_next(&w->node[i].hca.timers)), TIMER, i);
	for (uint32_t i = 0; i < w->ends; i++) {
		LATER(awake(w, w->end[i].node, w->end[i].run_at), RUN, i);
		LATER(w->end[i].state == END_DEAD ? NEVER : awake(w, w->end[i].node, w->end[i].tick_at), TICK, i);
	}
	for (uint32_t i = 0; w->lane_mtu && i < NETWORK_NODES * NETWORK_NODES; i++)
		LATER(awake(w, &w->node[i % NETWORK_NODES], w->lane[i / NETWORK_NODES][i % NETWORK_NODES].tell_at),
		      TELL, i);
	if (w->stops_left)
		LATER(w->stop_at, STOP, 0);
#undef LATER
	return what;
}

static bool is_sound(const struct end *e)
{
	return e->state == END_WORKS && e->first_error < 0 && !e->fatal;
}

static bool has_finished(const struct end *e)
{
	if (is_sound(e) && is_sound(e->peer) && e->peer->received < e->messages)
		return false;
	if (e->state == END_DEAD)
		return true;
	if (e->run_at != NEVER || e->stuck || !end_is_idle(e))
		return false;
	return e->state == END_CLOSED ||
	       (e->posted == e->planned && e->first_error < 0 && !e->fatal && !e->draining && !e->recv_failed);
}

static bool is_over(const struct world *w)
{
	if (w->network.flights.count)
		return false;
	for (uint32_t i = 0; i < w->ends; i++)
		if (!has_finished(&w->end[i]))
			return false;
	return true;
}

static void step(struct world *w)
{
	uint64_t when;
	uint32_t who = 0;
	enum happening what = next(w, &when, &who);

	expect(w, NULL, what != NOTHING, "nothing is left to happen");
	w->now = max_of(w->now, when);
	expect(w, NULL, w->now < TIME_LIMIT && w->events++ < EVENTS_LIMIT, "it never ends");
	switch (what) {
	case ARRIVAL:
		arrive(w);
		break;
	case TIMER:
		expire(w, &w->node[who]);
		break;
	case RUN:
		end_run(&w->end[who], false);
		break;
	case TICK:
		workload_tick(&w->end[who]);
		scenario_watch(w);
		break;
	case TELL:
		tell(w, who);
		break;
	case STOP:
		stop_somebody(w);
		break;
	case NOTHING:
		break;
	}
}

/* A QP that waits in SQD goes on, so that all ends are in the same state. */
static void leave_drain(struct end *e)
{
	if (e->state == END_WORKS && e->qp->state == IBV_QPS_SQD)
		end_modify(e, IBV_QPS_RTS);
}

static void settle(struct world *w)
{
	for (uint32_t i = 0; i < w->ends; i++)
		leave_drain(&w->end[i]);
	for (uint32_t i = 0; i < w->ends; i++) {
		struct end *e = &w->end[i];

		if (is_sound(e) && is_sound(e->peer))
			model_check_agreement(e);
	}
	for (uint32_t i = 0; i < w->ends; i++) {
		struct end *e = &w->end[i];

		if (e->state != END_WORKS)
			continue;
		e->state = END_CLOSED;
		end_modify(e, IBV_QPS_ERR);
	}
	for (uint32_t i = 0; i < w->nodes; i++)
		for (uint32_t c = 0; !w->network.dead[i] && c < WORLD_CQS; c++) {
			w->node[i].armed[c] = false;
			while (workload_poll(&w->node[i], c) || w->node[i].armed[c])
				w->node[i].armed[c] = false;
		}
	for (uint32_t i = 0; i < w->ends; i++)
		model_check_end(&w->end[i]);
	model_check_world(w);
	if (w->struck && w->scenario->must_fail && w->victim->poisoned)
		expect(w, w->victim, w->victim->first_error >= 0, "%s did not fail", w->scenario->name);
}

void world_run(struct world *w)
{
	do {
		step(w);
		if (w->beset)
			w->beset(w);
	} while (!is_over(w));
	settle(w);
}

static void node_fini(struct node *n)
{
	for (int i = 0; i < WORLD_CQS; i++)
		cq_fini(&n->cq[i]);
	free(n->values);
	hca_fini(&n->hca);
}

void world_fini(struct world *w)
{
	for (uint32_t i = 0; i < w->ends; i++) {
		struct end *e = &w->end[i];

		if (e->state != END_DEAD || w->network.dead[e->node->index])
			qp_destroy(e->qp);
	}
	for (uint32_t i = 0; i < w->ends; i++)
		end_fini(&w->end[i]);
	for (uint32_t i = 0; i < w->nodes; i++) {
		struct node *n = &w->node[i];

		expect(w, NULL, n->hca.timers.count == 0 && n->hca.qps.used == 0, "node %u: timers or QPs are left", i);
		for (uint32_t c = 0; c < WORLD_CQS; c++)
			expect(w, NULL, n->cq[c].users == 0, "node %u: CQ %u has users", i, c);
		node_fini(n);
	}
	network_fini(&w->network);
}
