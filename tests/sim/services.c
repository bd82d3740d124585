/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs of the other services: UC, UD, RC with an SRQ that several QPs share, XRC. Messages go one way, so a model
 * with few rules is enough (verdict.c). */
#include <stdlib.h>
#include <string.h>

#include "links.h"
#include "objects.h"
#include "services.h"

static const struct scenario scenario = {.name = "services"};

static void ignore_cq(struct cq *cq)
{
	(void)cq;
}

static void cq_error(struct cq *cq)
{
	(void)cq;
	failed(services.world, NULL, "a CQ is full");
}

static void qp_event(struct qp *qp, enum ibv_event_type event)
{
	if (event == IBV_EVENT_QP_FATAL || event == IBV_EVENT_QP_REQ_ERR || event == IBV_EVENT_QP_ACCESS_ERR)
		failed(services.world, NULL, "QP %06x: %s", qp->base.qp_num, ibv_event_type_str(event));
}

static void srq_event(struct srq *srq, enum ibv_event_type event)
{
	(void)srq;
	failed(services.world, NULL, "an SRQ: %s", ibv_event_type_str(event));
}

static const struct hca_ops ops = {
	.cq_event = ignore_cq, .cq_error = cq_error, .qp_event = qp_event, .srq_event = srq_event};

static void make_node(struct world *w, uint32_t index)
{
	struct node *n = &w->node[index];

	n->index = index;
	objects_hca(w, n, &ops);
	n->pd.hca = &n->hca;
	services.xrcd[index] = (struct xrcd){.hca = &n->hca, .name = {XRCD_PRIVATE, index + 1}};
	for (int i = 0; i < 2; i++)
		objects_cq(w, n, &n->cq[i], 2048);
}

static void answer(struct half *h, const struct packet *credit_request, const union ibv_gid *from)
{
	struct path path = {.sgid = services.world->network.gid[h->node->index], .dgid = *from};
	struct tx tx = {.path = &path};
	bool answers;

	lock_take(&h->qp->lock);
	answers = engine_grant_credit(h->qp, credit_request, from, services.world->now, &tx.packet);
	lock_drop(&h->qp->lock);
	if (answers)
		network_send(&services.world->network, h->node->index, &services.world->batch, &tx, 0,
			     services.world->now);
}

static void take_packet(struct half *h, const struct packet *p, const union ibv_gid *from)
{
	if (p->opcode == OPCODE_CREDIT_REQUEST) {
		answer(h, p, from);
		return;
	}
	lock_take(&h->qp->lock);
	if (!dice_chance(&services.world->dice, 0.7) || !engine_receive_fast(h->qp, p, from, NULL))
		engine_receive(h->qp, p, from, services.world->now, NULL);
	lock_drop(&h->qp->lock);
	run(h);
}

static void arrive(struct world *w)
{
	const struct packet *arrived;
	union ibv_gid from;
	struct packet p;
	uint32_t to;

	arrived = network_arrive(&w->network, &to, &from);
	if (!arrived)
		return;
	p = *arrived;
	p.to = w->network.gid[to].raw;
	for (uint32_t i = 0; i < services.links; i++) {
		struct link *l = &services.link[i];

		if (l->from.node->index == to && l->from.qp->base.qp_num == p.dest_qpn)
			take_packet(&l->from, &p, &from);
		if (l->to == &l->own && l->own.node->index == to && l->own.qp->base.qp_num == p.dest_qpn)
			take_packet(&l->own, &p, &from);
	}
}

static void expire(struct half *h)
{
	lock_take(&h->qp->lock);
	engine_expire(h->qp, services.world->now);
	lock_drop(&h->qp->lock);
	run(h);
}

/* One of those who share fails; all others go on. */
static void strike(struct link *l)
{
	say(services.world, NULL, "link %zu fails", (size_t)(l - services.link));
	services.world->struck = l->struck = true;
	move(&l->from, IBV_QPS_ERR, 0, (struct ibv_qp_attr){0});
	run(&l->from);
}

static void tick(struct link *l)
{
	struct world *w = services.world;

	if (l == services.link && w->strike_after && l->posted >= w->strike_after && !l->struck)
		strike(l);
	while (!l->struck && l->posted < l->planned && dice_chance(&w->dice, 0.5))
		post_send(l);
	run(&l->from);
	objects_more(w, l->to->node, l->pool->srq);
	poll_node(l->from.node);
	poll_node(l->to->node);
	refill(l->pool);
	run(l->to);
	l->tick_at = w->now + dice_between(&w->dice, 1, w->style.pace);
}

static void step(struct world *w)
{
	uint64_t when = network_next(&w->network);
	struct half *delayed_ack = NULL;
	struct link *link = NULL;

	for (uint32_t i = 0; i < services.links; i++) {
		struct link *l = &services.link[i];
		struct half *halves[] = {&l->from, l->to};

		for (int k = 0; k < 2; k++)
			if (halves[k]->deadline < when) {
				delayed_ack = halves[k];
				when = delayed_ack->deadline;
			}
		if (l->tick_at < when) {
			link = l;
			when = l->tick_at;
		}
	}
	expect(w, NULL, w->events++ < 20000000 && when < 1200 * SEC, "it never ends");
	w->now = max_of(w->now, when);
	if (link && link->tick_at == when)
		tick(link);
	else if (delayed_ack && delayed_ack->deadline == when)
		expire(delayed_ack);
	else
		arrive(w);
}

static bool is_over(const struct world *w)
{
	if (w->network.flights.count)
		return false;
	for (uint32_t i = 0; i < services.links; i++) {
		const struct link *l = &services.link[i];

		if ((l->posted < l->planned && !l->struck) || l->from.qp->sq.head != l->from.qp->sq.tail)
			return false;
	}
	return true;
}

static void settle(struct world *w)
{
	uint32_t left[POOLS] = {0}, held[POOLS] = {0};

	for (uint32_t i = 0; i < w->nodes; i++)
		poll_node(&w->node[i]);
	w->struck = true; /* receives may be flushed */
	for (uint32_t i = 0; i < services.links; i++) {
		struct link *l = &services.link[i];

		held[l->pool - services.pool] += l->to == &l->own;
		move(&l->from, IBV_QPS_ERR, 0, (struct ibv_qp_attr){0});
		move(l->to, IBV_QPS_ERR, 0, (struct ibv_qp_attr){0});
	}
	for (uint32_t i = 0; i < services.pools; i++)
		for (uint32_t k = 0; k < RECEIVES; k++)
			left[i] += services.pool[i].posted[k];
	for (uint32_t i = 0; i < w->nodes; i++)
		poll_node(&w->node[i]);
	/* of an SRQ, each QP flushes the one that it has begun with at most */
	for (uint32_t i = 0; i < services.pools; i++) {
		const struct supply *p = &services.pool[i];
		uint32_t now = 0;

		for (uint32_t k = 0; k < RECEIVES; k++)
			now += p->posted[k];
		expect(w, NULL,
		       p->srq ? left[i] - now <= held[i] && p->srq->rq.tail - p->srq->rq.head == now : now == 0,
		       "pool %u: %u receives were posted, %u are", i, left[i], now);
	}
	for (uint32_t i = 0; i < services.links; i++)
		check_link(&services.link[i]);
}

void services_init(struct world *w, uint64_t seed, const struct options *options)
{
	struct quality quality;
	bool tidy = false;
	uint32_t links;

	memset(&services, 0, sizeof(services));
	services.world = w;
	world_draw(w, seed ^ 0x5e47ce5, options, &quality);
	w->seed = seed;
	w->scenario = &scenario;
	services.mtu = (enum ibv_mtu)dice_between(&w->dice, IBV_MTU_256, IBV_MTU_1024);
	services.lazy = dice_chance(&w->dice, 0.5) ? 0 : 0.9;
	services.near_from = dice_chance(&w->dice, 0.5)	  ? NEVER
			     : dice_chance(&w->dice, 0.5) ? 0
							  : dice_below(&w->dice, MSEC);
	links = (uint32_t)dice_between(&w->dice, 1, LINKS);
	w->strike_after = dice_chance(&w->dice, 0.3) ? (uint32_t)dice_between(&w->dice, 1, MESSAGES) : 0;
	w->nodes = 2;
	enum kind kind[LINKS];

	for (uint32_t i = 0; i < links; i++) {
		kind[i] = (enum kind)dice_below(&w->dice, KINDS);
		tidy |= kind[i] == UC || kind[i] == UD;
	}
	if (tidy) { /* such services deliver what comes, as it comes */
		quality.duplicate = quality.reorder = 0;
		quality.in_order = true;
	}
	network_init(&w->network, &quality, dice_roll(&w->dice));
	for (uint32_t i = 0; i < w->nodes; i++)
		make_node(w, i);
	for (uint32_t i = 0; i < links; i++)
		make_link(kind[i]);
	say(w, NULL, "services: %u links, loss %.3f duplicate %.3f corrupt %.3f reorder %.3f", links, quality.loss,
	    quality.duplicate, quality.corrupt, quality.reorder);
}

void services_run(struct world *w)
{
	do
		step(w);
	while (!is_over(w));
	settle(w);
}

void services_fini(struct world *w)
{
	for (uint32_t i = 0; i < services.links; i++) {
		struct link *l = &services.link[i];

		qp_destroy(l->from.qp);
		if (l->to == &l->own)
			qp_destroy(l->own.qp);
		close_block(&l->source);
		close_block(&l->target);
	}
	for (uint32_t i = 0; i < services.pools; i++) {
		if (services.pool[i].srq)
			srq_destroy(services.pool[i].srq);
		close_block(&services.pool[i].block);
	}
	for (uint32_t i = 0; i < w->nodes; i++) {
		cq_fini(&w->node[i].cq[0]);
		cq_fini(&w->node[i].cq[1]);
		hca_fini(&w->node[i].hca);
	}
	network_fini(&w->network);
}
