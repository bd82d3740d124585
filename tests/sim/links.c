/* SPDX-License-Identifier: BSD-2-Clause */
/* Links of UC, UD, RC with an SRQ that several QPs share, and XRC: how they are made, and what they send. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "engine/fast_send.h"
#include "links.h"
#include "objects.h"
#include "own.h"

struct services services;

/* ---- memory ---- */

static void open_block(struct block *b, struct node *n, uint32_t size)
{
	uint8_t *at = own_aligned(size + 2 * GUARD);

	memset(at, UNTOUCHED, size + 2 * GUARD);
	b->bytes = at + GUARD;
	b->size = size;
	/* the addresses of keys are not those of the memory: runs do not depend on where it lies */
	b->mr = objects_region(services.world, n, &n->pd, b->bytes, size, 0x10000,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				       IBV_ACCESS_REMOTE_ATOMIC);
}

void close_block(struct block *b)
{
	for (int i = 0; i < GUARD; i++)
		expect(services.world, NULL, b->bytes[i - GUARD] == UNTOUCHED && b->bytes[b->size + i] == UNTOUCHED,
		       "a byte outside of a region was written");
	free(b->bytes - GUARD);
}

static struct ibv_sge piece(const struct block *b, uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){0x10000 + offset, length, b->mr->base.lkey};
}

/* ---- receives ---- */

static struct supply *open_pool(struct node *n, struct xrcd *xrcd, bool shares)
{
	struct supply *p = &services.pool[services.pools++];

	p->node = n;
	open_block(&p->block, n, RECEIVES * ROOM);
	if (shares)
		p->srq = objects_srq(services.world, n, xrcd, xrcd ? &n->cq[0] : NULL, RECEIVES);
	return p;
}

static void post_receive(struct supply *p, uint32_t slot)
{
	uint32_t cut = (uint32_t)dice_below(&services.world->dice, ROOM);
	struct ibv_sge sge[] = {piece(&p->block, slot * ROOM, cut), piece(&p->block, slot * ROOM + cut, ROOM - cut)};
	struct ibv_recv_wr *bad,
		wr = {.wr_id = (uint64_t)(p - services.pool) * RECEIVES + slot, .sg_list = sge, .num_sge = 2};
	int err;

	memset(p->block.bytes + slot * ROOM, UNTOUCHED, ROOM);
	p->posted[slot] = true;
	if (p->srq) {
		err = srq_post(p->srq, &wr, &bad);
	} else {
		lock_take(&p->qp->lock);
		err = engine_post_recv(p->qp, &wr, &bad);
		lock_drop(&p->qp->lock);
	}
	expect(services.world, NULL, !err, "a receive is refused: %d", err);
}

void refill(struct supply *p)
{
	for (uint32_t i = 0; i < RECEIVES; i++)
		if (!p->posted[i] && !dice_chance(&services.world->dice, services.lazy))
			post_receive(p, i);
}

/* ---- sends ---- */

static struct local_peer *find_near(struct qp *qp, const struct path *path, uint32_t qpn, uint64_t now)
{
	return now >= services.near_from ? (struct local_peer *)qp->hca : NULL; /* of no meaning */
}

static enum near_room reserve_near(struct qp *qp, struct local_peer *near, uint32_t length, bool waits)
{
	return dice_chance(&services.world->dice, 0.9)	 ? NEAR_ROOM
	       : dice_chance(&services.world->dice, 0.9) ? NEAR_FULL
							 : NEAR_GONE;
}

static void release_near(struct local_peer *near, uint32_t length)
{
}

static bool is_behind(struct local_peer *near)
{
	return dice_chance(&services.world->dice, 0.2);
}

static const struct near_ops near_ops = {find_near, reserve_near, release_near, is_behind};

void run(struct half *h)
{
	struct world *w = services.world;
	struct tx_batch *batch = &w->batch;
	int rounds = 0;
	bool more;

	lock_take(&h->qp->lock);
	do {
		batch->now = w->now;
		batch->delay_ack = false;
		batch->budget = w->style.budget;
		batch->room = UINT32_MAX;
		batch->near = &near_ops;
		more = engine_run(h->qp, batch);
		for (uint32_t i = 0; i < batch->packets; i++)
			network_send(&w->network, h->node->index, batch, &batch->tx[i], 0, w->now);
		batch_done(batch);
		expect(w, NULL, rounds++ < 10000, "the engine never has enough");
	} while (more);
	h->deadline = engine_deadline(h->qp);
	lock_drop(&h->qp->lock);
}

static enum ibv_wr_opcode draw_opcode(enum kind kind)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,	  IBV_WR_SEND_WITH_IMM,	       IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	static const uint32_t first[KINDS] = {[UC] = 4, [UD] = 2, [SHARED] = 6, [XRC] = 6};

	return opcodes[dice_below(&services.world->dice, first[kind])];
}

/* What is to be sent, or to be read, is where it comes from; the other end is untouched. */
static void prepare(struct link *l, uint32_t number)
{
	struct message *m = &l->message[number];
	uint32_t most = l->kind == UD ? min_of(128u << services.mtu, (uint32_t)(ROOM - GRH)) : ROOM;
	uint8_t *at;

	m->opcode = draw_opcode(l->kind);
	m->signalled = dice_chance(&services.world->dice, 0.6);
	m->atomics = l->atomics;
	m->length = (uint32_t)dice_between(&services.world->dice, sizeof(struct head), most);
	if (m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		m->length = 8;
		l->atomics++;
		return;
	}
	at = (m->opcode == IBV_WR_RDMA_READ ? l->target.bytes : l->source.bytes) + number * ROOM;
	for (uint32_t i = 0; i < m->length; i++)
		at[i] = content(l, number, i);
}

/* As post_datagrams() in loop/, now and then. */
NO_LOCK_ANALYSIS static bool post_fast(struct link *l, const struct ibv_send_wr *wr)
{
	struct world *w = services.world;
	struct tx *tx = &w->batch.tx[0];
	struct qp *qp = l->from.qp;
	char payload[FAST_RING_MOST];
	struct flow *to;

	if (l->kind != UD || qp->lane != LANE_DATAGRAM || qp->sq.head != qp->sq.tail || !qp_is_idle(qp) ||
	    !dice_chance(&w->dice, 0.7))
		return false;
	to = engine_flow_near(qp, wr, w->now);
	*tx = (struct tx){.packet = {.migrated = true, .pkey = PKEY_DEFAULT}, .path = &l->ah.path, .iovs = 1};
	if (!to || !engine_fast_datagram(qp, wr, to, w->now, &tx->packet, payload))
		return false;
	w->batch.iov[0] = (struct iovec){payload, tx->packet.length};
	network_send(&w->network, l->from.node->index, &w->batch, tx, 0, w->now);
	engine_fast_datagrams_sent(qp, wr);
	return true;
}

void post_send(struct link *l)
{
	uint32_t number = l->posted++, remote = number * ROOM, cut;
	struct message *m = &l->message[number];
	struct ibv_send_wr *bad, wr = {.wr_id = number, .num_sge = 2, .imm_data = htonl(number)};
	struct ibv_sge sge[2];
	int err;

	prepare(l, number);
	cut = m->length == 8 ? 0 : (uint32_t)dice_below(&services.world->dice, m->length);
	sge[0] = piece(&l->source, number * ROOM, m->length - cut);
	sge[1] = piece(&l->source, number * ROOM + m->length - cut, cut);
	wr.sg_list = sge;
	wr.num_sge = cut ? 2 : 1;
	wr.opcode = m->opcode;
	wr.send_flags = m->signalled ? IBV_SEND_SIGNALED : 0;
	if (l->kind == UD) {
		wr.wr.ud.ah = &l->ah.base;
		wr.wr.ud.remote_qpn = l->to->qp->base.qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	} else if (m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = 0x10000 + COUNTER;
		wr.wr.atomic.rkey = l->target.mr->base.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = 0x10000 + remote;
		wr.wr.rdma.rkey = l->target.mr->base.rkey;
	}
	if (l->kind == XRC)
		wr.qp_type.xrc.remote_srqn = l->pool->srq->number;
	lock_take(&l->from.qp->lock);
	err = post_fast(l, &wr) ? 0 : engine_post_send(l->from.qp, &wr, &bad);
	lock_drop(&l->from.qp->lock);
	expect(services.world, NULL, !err, "a request is refused: %d", err);
	services.world->ops++;
	services.world->bytes += m->length;
}

/* ---- queue pairs ---- */

static struct qp *make_qp(struct node *n, enum ibv_qp_type type, struct srq *srq)
{
	bool target = type == IBV_QPT_XRC_RECV;
	struct qp_needs needs = {.srq = srq, .type = type};
	struct qp *qp;

	if (!target) {
		needs.pd = &n->pd;
		needs.send_cq = &n->cq[1];
		needs.recv_cq = type == IBV_QPT_XRC_SEND ? NULL : &n->cq[0];
		needs.cap = (struct ibv_qp_cap){MESSAGES, srq ? 0 : RECEIVES, 2, srq ? 0 : 2, 0};
	}
	qp = objects_qp(services.world, n, &needs);
	if (target)
		qp->xrc->domain = services.xrcd[n->index].name;
	return qp;
}

void move(struct half *h, enum ibv_qp_state to, int mask, struct ibv_qp_attr a)
{
	int err;

	a.qp_state = to;
	err = objects_modify(services.world, h->qp, &a, IBV_QP_STATE | mask);
	expect(services.world, NULL, !err, "QP %06x: to state %d says %d", h->qp->base.qp_num, to, err);
}

static void start(const struct link *l, struct half *h, const struct half *peer, struct ibv_qp_attr a)
{
	static const int access = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	static const int path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	static const int masks[KINDS][3] = {
		[UC] = {access, path, IBV_QP_SQ_PSN},
		[UD] = {IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN},
		[SHARED] = {access, path | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
			    IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_MAX_QP_RD_ATOMIC},
	};
	const int *mask = masks[l->kind == XRC ? SHARED : l->kind];

	h->deadline = NEVER;
	a.dest_qp_num = peer->qp->base.qp_num;
	move(h, IBV_QPS_INIT, mask[0], a);
	if (l->kind == UD)
		h->qp->mtu = 128u << services.mtu; /* the port's, as verbs/ sets it */
	else
		h->qp->path = (struct path){.sgid = services.world->network.gid[h->node->index],
					    .dgid = services.world->network.gid[peer->node->index]};
	move(h, IBV_QPS_RTR, mask[1], a);
	move(h, IBV_QPS_RTS, mask[2], a);
}

/* An older link's receiver, if there is one that takes more. */
static struct link *find_receiver(const struct node *n)
{
	for (uint32_t i = 0; i < services.links; i++)
		if (services.link[i].kind == UD && services.link[i].to->node == n &&
		    dice_chance(&services.world->dice, 0.7))
			return &services.link[i];
	return NULL;
}

static void make_ends(struct link *l, struct node *from, struct node *to)
{
	static const enum ibv_qp_type types[KINDS][2] = {
		[UC] = {IBV_QPT_UC, IBV_QPT_UC},
		[UD] = {IBV_QPT_UD, IBV_QPT_UD},
		[SHARED] = {IBV_QPT_RC, IBV_QPT_RC},
		[XRC] = {IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV},
	};
	struct supply **shared = l->kind == XRC ? &services.extended[to->index] : &services.shared[to->index];
	struct link *older = l->kind == UD ? find_receiver(to) : NULL;
	bool shares = is_acknowledged(l) || dice_chance(&services.world->dice, 0.3);

	l->from = (struct half){.node = from, .qp = make_qp(from, types[l->kind][0], NULL)};
	if (older) {
		l->to = older->to;
		l->pool = older->pool;
		return;
	}
	if (shares && !*shared)
		*shared = open_pool(to, l->kind == XRC ? &services.xrcd[to->index] : NULL, true);
	l->pool = shares ? *shared : open_pool(to, NULL, false);
	l->own = (struct half){.node = to, .qp = make_qp(to, types[l->kind][1], l->kind == XRC ? NULL : l->pool->srq)};
	l->to = &l->own;
	if (!shares)
		l->pool->qp = l->to->qp;
}

void make_link(enum kind kind)
{
	struct world *w = services.world;
	uint32_t from = (uint32_t)dice_below(&w->dice, w->nodes);
	struct link *l = &services.link[services.links];
	struct ibv_qp_attr a = {
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = services.mtu,
		.rq_psn = 0xfffff0 + (uint32_t)dice_below(&w->dice, 32),
		.max_rd_atomic = (uint8_t)dice_between(&w->dice, 1, 8),
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = (uint8_t)dice_between(&w->dice, 1, 14),
		.timeout = (uint8_t)dice_between(&w->dice, 8, 15),
		.retry_cnt = 7,
		.rnr_retry = 7,
	};

	a.rq_psn &= PSN_MASK;
	a.sq_psn = a.rq_psn;
	l->kind = kind;
	make_ends(l, &w->node[from], &w->node[(from + 1) % w->nodes]);
	services.links++;
	l->ah = (struct ah){
		.base.pd = &l->from.node->pd.base,
		.pd = &l->from.node->pd,
		.path = {.sgid = w->network.gid[l->from.node->index], .dgid = w->network.gid[l->to->node->index]}};
	open_block(&l->source, l->from.node, MESSAGES * ROOM);
	open_block(&l->target, l->to->node, TARGET);
	memset(l->target.bytes + COUNTER, 0, sizeof(uint64_t));
	l->planned = (uint32_t)dice_between(&w->dice, 1, MESSAGES);
	l->tick_at = w->now + dice_below(&w->dice, w->style.pace);
	start(l, &l->from, l->to, a);
	if (l->to == &l->own)
		start(l, &l->own, &l->from, a);
}
