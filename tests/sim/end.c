/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/fast_send.h"
#include "objects.h"
#include "world.h"

#define RUN_DELAY (50 * USEC) /* an owed ACK or a posted request waits no longer, see loop/ */

static struct mr *region(struct pd *pd, struct end *e, struct piece p, uint64_t iova, unsigned access)
{
	return objects_region(e->world, e->node, pd, e->arena.real + p.offset, p.length, iova, access);
}

/* [guard][source][guard][sink][guard][inbox][guard][target][guard][readable][guard][writable][guard]; the
 * keys' addresses are not those of the memory, so that runs do not depend on where it lies. */
static void make_memory(struct end *e)
{
	struct world *w = e->world;
	uint32_t most = w->style.max_length, times = most > 1 << 20 ? 1 : most > 65536 ? 3 : 6;
	uint32_t one = (times * most + 4096) & ~63u, at = GUARD;
	uint64_t base = 0x100000000ull * (e->number + 1);

	e->target.length = ((times > 1 ? 2 : 1) * most + 4096) & ~63u;
	arena_init(&e->arena, 3 * one + e->target.length + 2 * 4096 + 8 * GUARD, &w->dice);
	space_init(&e->source, at, one);
	space_init(&e->sink, at += one + GUARD, one);
	space_init(&e->inbox, at += one + GUARD, one);
	e->target.offset = at += one + GUARD;
	e->readable = (struct piece){at += e->target.length + GUARD, 4096};
	e->writable = (struct piece){at + 4096 + GUARD, 4096};
	e->source_mr = region(&e->node->pd, e, (struct piece){e->source.offset, one}, base + e->source.offset, 0);
	e->sink_mr = region(&e->node->pd, e, (struct piece){e->sink.offset, one}, base + e->sink.offset,
			    IBV_ACCESS_LOCAL_WRITE);
	e->inbox_mr = region(&e->node->pd, e, (struct piece){e->inbox.offset, one}, base + e->inbox.offset,
			     IBV_ACCESS_LOCAL_WRITE);
	e->target_mr = region(&e->node->pd, e, e->target, base + e->target.offset,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				      IBV_ACCESS_REMOTE_ATOMIC);
	e->readable_mr = region(&e->node->pd, e, e->readable, base + e->readable.offset, IBV_ACCESS_REMOTE_READ);
	e->writable_mr = region(&e->node->pd, e, e->writable, base + e->writable.offset,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	e->foreign_mr = region(&e->node->other_pd, e, e->target, base + e->target.offset,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
}

void end_create(struct end *e, struct world *w, struct node *node)
{
	struct dice *d = &w->dice;

	e->world = w;
	e->node = node;
	e->number = (uint32_t)(e - w->end);
	e->first_error = -1;
	e->run_at = NEVER;
	e->cap = (struct ibv_qp_cap){
		.max_send_wr = (uint32_t)dice_between(d, 1, dice_chance(d, 0.3) ? 100 : 20),
		.max_recv_wr = (uint32_t)dice_between(d, 1, 20),
		.max_send_sge = (uint32_t)dice_between(d, 1, 5),
		.max_recv_sge = (uint32_t)dice_between(d, 1, 5),
		.max_inline_data = (uint32_t)dice_below(d, 300),
	};
	e->sig_all = dice_chance(d, 0.2);
	e->send_cq = &node->cq[dice_below(d, WORLD_CQS)];
	e->recv_cq = &node->cq[dice_below(d, WORLD_CQS)];
	e->qp = objects_qp(w, node,
			   &(struct qp_needs){.pd = &node->pd,
					      .send_cq = e->send_cq,
					      .recv_cq = e->recv_cq,
					      .type = IBV_QPT_RC,
					      .cap = e->cap,
					      .sig_all = e->sig_all});
	e->qpn = e->qp->base.qp_num;
	make_memory(e);
}

static int modify(struct end *e, struct ibv_qp_attr *attr, int mask)
{
	return objects_modify(e->world, e->qp, attr, mask);
}

void end_resources(struct end *e)
{
	uint8_t least = max_of(e->peer->attr.max_rd_atomic, 1);
	struct ibv_qp_attr attr = {.max_dest_rd_atomic = (uint8_t)dice_between(&e->world->dice, least, 18)};
	int err = modify(e, &attr, IBV_QP_MAX_DEST_RD_ATOMIC);

	say(e->world, e, "modify max_dest_rd_atomic to %u", attr.max_dest_rd_atomic);
	expect(e->world, e, !err, "modify in SQD says %d", err);
	e->attr.max_dest_rd_atomic = attr.max_dest_rd_atomic;
}

void end_modify(struct end *e, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {.qp_state = to, .en_sqd_async_notify = 1};
	int mask = IBV_QP_STATE | (to == IBV_QPS_SQD ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0);
	int err = modify(e, &attr, mask);

	say(e->world, e, "modify to state %d", to);
	expect(e->world, e, !err, "modify to state %d says %d", to, err);
	end_run(e, false);
}

/* RESET to RTS */
void end_connect(struct end *e)
{
	struct world *w = e->world;
	struct ibv_qp_attr a = e->attr;
	int err;

	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	err = modify(e, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	expect(w, e, !err, "RESET to INIT says %d", err);
	e->qp->path = (struct path){
		.sgid = w->network.gid[e->node->index], .dgid = w->network.gid[e->peer->node->index], .hop_limit = 64};
	a.qp_state = IBV_QPS_RTR;
	a.dest_qp_num = e->peer->qpn;
	err = modify(e, &a,
		     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	expect(w, e, !err, "INIT to RTR says %d", err);
	a.qp_state = IBV_QPS_RTS;
	err = modify(e, &a,
		     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_MAX_QP_RD_ATOMIC);
	expect(w, e, !err, "RTR to RTS says %d", err);
}

void end_fini(struct end *e)
{
	for (uint32_t i = 0; i < e->planned; i++)
		free(e->op[i].data);
	free(e->op);
	free(e->message);
	free(e->take);
	space_fini(&e->source);
	space_fini(&e->sink);
	space_fini(&e->inbox);
	arena_fini(&e->arena);
}

struct sim_lane *end_lane(struct end *e)
{
	struct world *w = e->world;
	struct sim_lane *l = &w->lane[e->node->index][e->peer->node->index];

	return l->size && !w->network.dead[e->peer->node->index] ? l : NULL;
}

bool end_is_idle(const struct end *e)
{
	return e->state == END_DEAD || e->completed == e->posted;
}

/* What must hold of the engine's state whenever it is left alone. */
static void check_state(struct end *e)
{
	const struct requester *r = &e->qp->req;
	struct world *w = e->world;

	if (e->qp->state != IBV_QPS_RTS && e->qp->state != IBV_QPS_SQD)
		return;
	expect(w, e, psn_diff(r->next, r->una) >= 0 && psn_diff(r->high, r->next) >= 0,
	       "una %06x next %06x high %06x are out of order", r->una.v, r->next.v, r->high.v);
	expect(w, e, r->rd_count <= e->attr.max_rd_atomic, "%u READs and atomics are on the way, %u may be",
	       r->rd_count, e->attr.max_rd_atomic);
	expect(w, e, r->una.v != r->next.v || r->flight == 0, "%u bytes in flight with nothing on the way", r->flight);
}

static void send_batch(struct end *e, struct tx_batch *batch, uint32_t from)
{
	struct sim_lane *lane = e->qp->req.lossless ? end_lane(e) : NULL;
	struct world *w = e->world;

	for (uint32_t i = from; i < batch->packets; i++) {
		const struct packet *p = &batch->tx[i].packet;

		say(w, e, "  sends %s psn %06x length %u%s syndrome %02x msn %u", opcode_info[p->opcode].name, p->psn.v,
		    p->length, p->ack_request ? " AckReq" : "", p->syndrome, p->msn);
		expect(w, e, p->length <= max_of(e->qp->mtu, w->lane_mtu), "a packet of %u bytes, path MTU %u",
		       p->length, e->qp->mtu);
		expect(w, e, p->dest_qpn == e->peer->qpn, "a packet to QP %06x", p->dest_qpn);
		if (lane) {
			expect(w, e, lane_bytes(p->length) <= lane_room(lane), "a packet of %u bytes into room for %u",
			       p->length, lane_room(lane));
			lane->at += lane_bytes(p->length);
			e->sent_to = lane->at;
		}
		network_send(&w->network, e->node->index, batch, &batch->tx[i], e->qp->req.lossless ? w->lane_mtu : 0,
			     w->now);
	}
}

void end_run(struct end *e, bool delay_ack)
{
	struct world *w = e->world;
	struct tx_batch *batch = &w->batch;
	struct qp *qp = e->qp;
	struct sim_lane *lane;
	uint64_t deadline;
	bool more, work;
	int rounds = 0;

	if (e->state == END_DEAD)
		return;
	e->stuck = false;
	lock_take(&qp->lock);
	if (w->lane_mtu && w->now >= e->lane_at && qp->req.mtu != w->lane_mtu)
		engine_change_link(qp, w->lane_mtu);
	lane = qp->req.lossless ? end_lane(e) : NULL;
	do {
		/* now and then a tx batch with less room than most */
		uint32_t from = dice_chance(&w->dice, 0.1) ? (uint32_t)dice_below(&w->dice, BATCH_PACKETS) : 0;

		batch->now = w->now;
		batch->delay_ack = delay_ack;
		batch->budget = w->style.budget;
		batch->room = lane ? min_of(lane_room(lane), lane->size / 2) : UINT32_MAX;
		batch->packets = from;
		more = engine_run(qp, batch);
		expect(w, e,
		       batch->packets >= from && batch->packets <= BATCH_PACKETS && batch->iovs <= BATCH_IOVECS &&
			       batch->regions <= BATCH_REGIONS,
		       "the turn holds %u packets, %u pieces, %u regions", batch->packets, batch->iovs, batch->regions);
		expect(w, e, !more || batch->packets > from || from || rounds < 1000,
		       "the engine wants to run again and again and sends nothing");
		send_batch(e, batch, from);
		batch_done(batch);
		expect(w, e, rounds < 100000, "the engine never has enough");
	} while (more && (rounds++ < 4 || !dice_chance(&w->dice, 0.2)));
	work = engine_has_work(qp, false);
	deadline = engine_deadline(qp);
	e->stuck = batch->full;
	if (e->stuck)
		say(w, e, "waits for room: there are %u bytes of %u", lane_room(lane), lane->size);
	expect(w, e, more || delay_ack || e->stuck || !work, "the engine has run, and still has work");
	expect(w, e, !engine_in_flight(qp) || deadline != NEVER || work || qp->attr.timeout == 0,
	       "requests are on the way and no deadline is set");
	check_state(e);
	if (deadline != NEVER)
		timer_set(&e->node->hca.timers, &qp->timer, deadline);
	lock_drop(&qp->lock);
	e->run_at = e->stuck ? NEVER
		    : more   ? w->now + dice_below(&w->dice, USEC)
		    : work   ? w->now + dice_below(&w->dice, RUN_DELAY)
			     : NEVER;
}

void end_attend(struct end *e)
{
	struct world *w = e->world;

	if (dice_chance(&w->dice, w->style.run_now))
		end_run(e, dice_chance(&w->dice, w->style.delay_ack));
	else if (e->run_at == NEVER && !e->stuck)
		e->run_at = w->now + dice_below(&w->dice, RUN_DELAY);
}

/* As loop_post_fast_udp(). */
NO_LOCK_ANALYSIS static struct ibv_send_wr *post_fast_udp(struct end *e, struct ibv_send_wr *wr)
{
	struct world *w = e->world;
	struct tx_batch *batch = &w->batch;
	struct qp *qp = e->qp;
	struct packet packet[FAST_UDP_LIST + 1];
	char payload[FAST_UDP_LIST * (FAST_UDP_MOST + PACKET_HEADERS)], *at = payload;

	if (qp->lane != LANE_UDP || !qp_is_idle(qp) || !engine_fast_send_fits(qp, wr))
		return wr;
	batch->packets = engine_fast_send_udp(qp, &wr, w->now, w->style.budget, 1 + dice_below(&w->dice, FAST_UDP_LIST),
					      payload, packet);
	for (uint32_t i = 0; i < batch->packets; i++) {
		batch->tx[i] =
			(struct tx){.packet = packet[i], .path = &qp->path, .iov = i, .iovs = packet[i].length > 0};
		batch->iov[i] = (struct iovec){at, packet[i].length};
		at += packet_bytes(packet);
	}
	send_batch(e, batch, 0);
	if (!batch->packets)
		return wr;
	batch->packets = 0;
	check_state(e);
	return wr;
}

/* As loop_post_fast() and loop_post_fast_udp(), now and then; with the lock of the QP. */
NO_LOCK_ANALYSIS struct ibv_send_wr *end_post_fast(struct end *e, struct ibv_send_wr *wr)
{
	struct world *w = e->world;
	struct tx_batch *batch = &w->batch;
	struct qp *qp = e->qp;
	char payload[FAST_RING_MOST];
	struct ibv_send_wr *declined = NULL;

	for (; wr && w->lane_mtu && (qp->lane == LANE_RING || qp->lane == LANE_MEMORY) && qp_is_idle(qp) &&
	       dice_chance(&w->dice, 0.7);
	     wr = wr->next) {
		if (end_lane(e) && lane_room(end_lane(e)) < lane_bytes(FAST_RING_MOST) + BATCH_SPARE)
			break;
		batch->tx[0] =
			(struct tx){.packet = {.migrated = true, .pkey = PKEY_DEFAULT}, .path = &qp->path, .iovs = 1};
		if (!(fast_is_common(qp, wr) ? engine_fast_send(qp, wr, &batch->tx[0].packet, payload, true)
					     : engine_fast_send(qp, wr, &batch->tx[0].packet, payload, false)))
			break;
		if (!engine_fast_is_timed(qp))
			engine_fast_time(qp, w->now);
		batch->iov[0] = (struct iovec){payload, batch->tx[0].packet.length};
		batch->packets = 1;
		send_batch(e, batch, 0);
		batch->packets = 0;
		check_state(e);
	}
	while (wr && wr != declined && !w->lane_mtu && dice_chance(&w->dice, 0.7)) {
		declined = wr;
		wr = post_fast_udp(e, wr);
	}
	if (engine_deadline(qp) != NEVER)
		timer_set(&e->node->hca.timers, &qp->timer, engine_deadline(qp));
	return wr;
}

/* hca_find_qp() hands the QP over locked. */
NO_LOCK_ANALYSIS void end_receive(struct end *e, const struct packet *p, const union ibv_gid *from)
{
	struct world *w = e->world;
	struct qp *qp;

	say(w, e, "receives %s psn %06x length %u syndrome %02x msn %u", opcode_info[p->opcode].name, p->psn.v,
	    p->length, p->syndrome, p->msn);
	qp = hca_find_qp(&e->node->hca, p->dest_qpn);
	expect(w, e, qp == e->qp, "hca_find_qp(%06x) finds another QP", p->dest_qpn);
	if (!p->mtu || !dice_chance(&w->dice, 0.7) || !engine_receive_fast(qp, p, from, NULL))
		engine_receive(qp, p, from, w->now, NULL);
	lock_drop(&qp->lock);
	e->nap = 0;
	end_attend(e);
}

void end_expire(struct end *e)
{
	struct qp *qp = e->qp;

	struct sim_lane *lane = qp->req.lossless ? end_lane(e) : NULL;

	lock_take(&qp->lock);
	say(e->world, e, "expires");
	if (lane && lane->read < e->sent_to)
		engine_postpone(qp, e->world->now); /* its peer has not even looked: local_is_unseen() */
	engine_expire(qp, e->world->now);
	lock_drop(&qp->lock);
	end_run(e, false);
}

void end_destroy_qp(struct end *e)
{
	say(e->world, e, "destroyed");
	e->state = END_DEAD;
	e->run_at = NEVER;
	e->stuck = false;
	qp_destroy(e->qp);
}
