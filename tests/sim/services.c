/* Runs of the other services: UC, UD, RC with an SRQ that several share, XRC. Messages go one way, so that a model of
 * few rules will do: each request completes once, in order; a message comes whole or not at all, at most once, in
 * order; what is reliable comes; nothing is written but what a message may write. SPDX-License-Identifier:
 * BSD-2-Clause */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "object/ah.h"
#include "services.h"

enum {
	LINKS = 8,
	MESSAGES = 24, /* of a link, at most */
	ROOM = 1600,   /* for each */
	RECEIVES = 16,    /* receives of a pool */
	POOLS = LINKS + 2 * NETWORK_NODES,
	GRH = 40,
	QKEY = 0x11111111,
	UNTOUCHED = 0xdd,
	COUNTER = MESSAGES * ROOM, /* where in a target */
	TARGET = COUNTER + 64,
};

enum kind {
	UC,
	UD,
	SHARED, /* RC whose receives come from an SRQ */
	XRC,
	KINDS
};

struct head {
	uint32_t link, number, length;
};

/* Memory with a region over all but its guards. */
struct block {
	uint8_t *bytes; /* of the region */
	uint32_t size;
	struct mr *mr;
};

/* Where receives come from. */
struct supply {
	struct node *node;
	struct srq *srq; /* NULL: they are the QP's own */
	struct qp *qp;
	struct block block;
	bool posted[RECEIVES];
};

struct half {
	struct qp *qp;
	struct node *node;
	uint64_t deadline;
};

struct message {
	enum ibv_wr_opcode opcode;
	uint32_t length, atomics; /* atomics that went before it */
	bool signalled;
};

struct link {
	enum kind kind;
	struct half from, *to;
	struct half own;    /* `to`, unless that is another link's */
	struct supply *pool;
	struct block source, target;
	struct ah ah;
	struct message message[MESSAGES];
	uint32_t planned, posted, done, next; /* next: number that may arrive, at least */
	uint32_t taken, atomics, succeeded;   /* messages that arrived; posted atomics; those that came back */
	bool struck, flushed;
	uint64_t tick_at;
};

static const struct scenario scenario = {.name = "services"};

static struct {
	struct world *world;
	struct link link[LINKS];
	uint32_t links;
	struct supply pool[POOLS];
	uint32_t pools;
	struct supply *shared[NETWORK_NODES], *extended[NETWORK_NODES];
	struct xrcd xrcd[NETWORK_NODES];
	enum ibv_mtu mtu;
	double lazy;
} s;

static void ignore_cq(struct cq *cq)
{
	(void)cq;
}

static void cq_error(struct cq *cq)
{
	(void)cq;
	failed(s.world, NULL, "a CQ is full");
}

static void qp_event(struct qp *qp, enum ibv_event_type event)
{
	if (event == IBV_EVENT_QP_FATAL || event == IBV_EVENT_QP_REQ_ERR || event == IBV_EVENT_QP_ACCESS_ERR)
		failed(s.world, NULL, "QP %06x: %s", qp->base.qp_num, ibv_event_type_str(event));
}

static void srq_event(struct srq *srq, enum ibv_event_type event)
{
	(void)srq;
	failed(s.world, NULL, "an SRQ: %s", ibv_event_type_str(event));
}

static const struct hca_ops ops = {.cq_event = ignore_cq, .cq_error = cq_error, .qp_event = qp_event, .srq_event = srq_event};

static bool is_acknowledged(const struct link *l)
{
	return l->kind == SHARED || l->kind == XRC;
}

static uint8_t byte_of(const struct link *l, uint32_t number, uint32_t i)
{
	return (uint8_t)((uint32_t)(l - s.link) * 31 + number * 7 + i * 3 + (i >> 8));
}

/* What message `number` of a link holds at i. */
static uint8_t content(const struct link *l, uint32_t number, uint32_t i)
{
	struct head h = {(uint32_t)(l - s.link), number, l->message[number].length};

	return i < sizeof(h) ? ((uint8_t *)&h)[i] : byte_of(l, number, i);
}

/* ---- memory ---- */

static void open_block(struct block *b, struct node *n, uint32_t size)
{
	uint8_t *at = aligned_alloc(64, size + 2 * GUARD);

	if (!at)
		abort();
	memset(at, UNTOUCHED, size + 2 * GUARD);
	b->bytes = at + GUARD;
	b->size = size;
	/* the addresses of keys are not those of the memory: runs do not depend on where it lies */
	b->mr = mr_register(&n->pd, b->bytes, size, 0x10000,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				    IBV_ACCESS_REMOTE_ATOMIC);
	if (!b->mr)
		abort();
}

static void close_block(struct block *b)
{
	for (int i = 0; i < GUARD; i++)
		expect(s.world, NULL, b->bytes[i - GUARD] == UNTOUCHED && b->bytes[b->size + i] == UNTOUCHED,
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
	struct supply *p = &s.pool[s.pools++];

	p->node = n;
	open_block(&p->block, n, RECEIVES * ROOM);
	if (shares)
		p->srq = srq_create(&n->hca, &n->pd, xrcd, xrcd ? &n->cq[0] : NULL, RECEIVES, 2);
	if (shares && !p->srq)
		abort();
	return p;
}

static void post_receive(struct supply *p, uint32_t slot)
{
	uint32_t cut = (uint32_t)dice_below(&s.world->dice, ROOM);
	struct ibv_sge sge[] = {piece(&p->block, slot * ROOM, cut), piece(&p->block, slot * ROOM + cut, ROOM - cut)};
	struct ibv_recv_wr *bad, wr = {.wr_id = (uint64_t)(p - s.pool) * RECEIVES + slot, .sg_list = sge, .num_sge = 2};
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
	expect(s.world, NULL, !err, "a receive is refused: %d", err);
}

static void refill(struct supply *p)
{
	for (uint32_t i = 0; i < RECEIVES; i++)
		if (!p->posted[i] && !dice_chance(&s.world->dice, s.lazy))
			post_receive(p, i);
}

static struct link *link_of(const struct cqe *c, const struct node *n, const uint8_t *at)
{
	struct head h;

	for (uint32_t i = 0; i < s.links; i++)
		if (s.link[i].kind != UD && s.link[i].to->node == n && s.link[i].to->qp->base.qp_num == c->qpn)
			return &s.link[i];
	memcpy(&h, at + GRH, sizeof(h)); /* many may send to one */
	expect(s.world, NULL,
	       h.link < s.links && s.link[h.link].to->qp->base.qp_num == c->qpn && s.link[h.link].to->node == n &&
		       s.link[h.link].from.qp->base.qp_num == c->src_qp,
	       "a datagram of nobody at QP %06x", c->qpn);
	return &s.link[h.link];
}

static void check_message(struct link *l, const struct cqe *c, const uint8_t *at)
{
	uint32_t length = c->byte_len, number;
	bool writes = c->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	struct head h;

	if (l->kind == UD) {
		at += GRH;
		length -= GRH;
	}
	if (writes) {
		number = ntohl(c->imm);
		expect(s.world, NULL, number < MESSAGES, "an immediate of nobody");
		at = l->target.bytes + number * ROOM;
	} else {
		memcpy(&h, at, sizeof(h));
		number = h.number;
	}
	expect(s.world, NULL, number >= l->next && number < l->posted, "link %zu: message %u came twice or too late",
	       (size_t)(l - s.link), number);
	expect(s.world, NULL, length == l->message[number].length, "link %zu: message %u has %u bytes",
	       (size_t)(l - s.link), number, length);
	for (uint32_t i = 0; i < length; i++)
		expect(s.world, NULL, at[i] == content(l, number, i), "link %zu: byte %u of message %u is wrong",
		       (size_t)(l - s.link), i, number);
	if (!(c->flags & IBV_WC_WITH_IMM))
		expect(s.world, NULL, l->message[number].opcode == IBV_WR_SEND, "an immediate was lost");
	else
		expect(s.world, NULL, ntohl(c->imm) == number, "message %u has another's immediate", number);
	l->next = number + 1;
	l->taken++;
}

static void received(struct node *n, const struct cqe *c)
{
	struct supply *p = &s.pool[c->wr_id / RECEIVES];
	uint32_t slot = c->wr_id % RECEIVES;
	uint8_t *at = p->block.bytes + slot * ROOM;
	struct link *l;

	expect(s.world, NULL, c->wr_id < (uint64_t)s.pools * RECEIVES && p->posted[slot], "a receive completes twice");
	p->posted[slot] = false;
	if (c->status == IBV_WC_WR_FLUSH_ERR && s.world->struck)
		return;
	expect(s.world, NULL, c->status == IBV_WC_SUCCESS, "a receive says %s", ibv_wc_status_str(c->status));
	l = link_of(c, n, at);
	expect(s.world, NULL, l->pool == p, "a receive of another queue was used");
	check_message(l, c, at);
}

/* ---- sends ---- */

static void run(struct half *h)
{
	struct world *w = s.world;
	struct turn *turn = &w->turn;
	int rounds = 0;
	bool more;

	lock_take(&h->qp->lock);
	do {
		turn->now = w->now;
		turn->delay_ack = false;
		turn->budget = w->style.budget;
		turn->room = UINT32_MAX;
		more = engine_run(h->qp, turn);
		for (uint32_t i = 0; i < turn->packets; i++)
			network_send(&w->network, h->node->index, turn, &turn->tx[i], 0, w->now);
		turn_done(turn);
		expect(w, NULL, rounds++ < 10000, "the engine never has enough");
	} while (more);
	h->deadline = engine_deadline(h->qp);
	lock_drop(&h->qp->lock);
}

static enum ibv_wr_opcode draw_opcode(enum kind kind)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,	   IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	static const uint32_t first[KINDS] = {[UC] = 4, [UD] = 2, [SHARED] = 6, [XRC] = 6};

	return opcodes[dice_below(&s.world->dice, first[kind])];
}

/* What is to be sent, or to be read, is where it comes from; the other end is untouched. */
static void prepare(struct link *l, uint32_t number)
{
	struct message *m = &l->message[number];
	uint32_t most = l->kind == UD ? min_of(128u << s.mtu, (uint32_t)(ROOM - GRH)) : ROOM;
	uint8_t *at;

	m->opcode = draw_opcode(l->kind);
	m->signalled = dice_chance(&s.world->dice, 0.6);
	m->atomics = l->atomics;
	m->length = (uint32_t)dice_between(&s.world->dice, sizeof(struct head), most);
	if (m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		m->length = 8;
		l->atomics++;
		return;
	}
	at = (m->opcode == IBV_WR_RDMA_READ ? l->target.bytes : l->source.bytes) + number * ROOM;
	for (uint32_t i = 0; i < m->length; i++)
		at[i] = content(l, number, i);
}

static void post_send(struct link *l)
{
	uint32_t number = l->posted++, remote = number * ROOM, cut;
	struct message *m = &l->message[number];
	struct ibv_send_wr *bad, wr = {.wr_id = number, .num_sge = 2, .imm_data = htonl(number)};
	struct ibv_sge sge[2];
	int err;

	prepare(l, number);
	cut = m->length == 8 ? 0 : (uint32_t)dice_below(&s.world->dice, m->length);
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
	err = engine_post_send(l->from.qp, &wr, &bad);
	lock_drop(&l->from.qp->lock);
	expect(s.world, NULL, !err, "a request is refused: %d", err);
	s.world->ops++;
	s.world->bytes += m->length;
}

static void check_result(struct link *l, uint32_t number)
{
	const struct message *m = &l->message[number];
	const uint8_t *at = l->source.bytes + number * ROOM;
	uint64_t value;

	if (m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		memcpy(&value, at, sizeof(value));
		expect(s.world, NULL, value == m->atomics, "an atomic found %lu, not %u", value, m->atomics);
		l->succeeded = m->atomics + 1;
	}
	for (uint32_t i = 0; m->opcode == IBV_WR_RDMA_READ && i < m->length; i++)
		expect(s.world, NULL, at[i] == content(l, number, i), "byte %u of READ %u is wrong", i, number);
}

/* Requests complete in order; those that need not be told of are passed by. */
static void sent(struct link *l, const struct cqe *c)
{
	bool flushed = c->status == IBV_WC_WR_FLUSH_ERR && l->struck;

	expect(s.world, NULL, c->status == IBV_WC_SUCCESS || flushed, "link %zu: request %lu says %s",
	       (size_t)(l - s.link), c->wr_id, ibv_wc_status_str(c->status));
	expect(s.world, NULL, flushed || !l->flushed, "a request succeeds after one that failed");
	expect(s.world, NULL, c->wr_id >= l->done && c->wr_id < l->posted, "request %lu completes twice", c->wr_id);
	for (; l->done < c->wr_id; l->done++) {
		expect(s.world, NULL, !l->message[l->done].signalled && !l->flushed, "request %u never completes",
		       l->done);
		check_result(l, l->done);
	}
	l->done++;
	l->flushed |= flushed;
	if (flushed)
		return;
	expect(s.world, NULL, l->message[c->wr_id].signalled, "request %lu was not to be told of", c->wr_id);
	check_result(l, (uint32_t)c->wr_id);
}

static void poll(struct node *n)
{
	struct cqe c;

	while (cq_poll(&n->cq[0], 1, &c) == 1)
		received(n, &c);
	while (cq_poll(&n->cq[1], 1, &c) == 1)
		for (uint32_t i = 0; i < s.links; i++)
			if (s.link[i].from.node == n && s.link[i].from.qp->base.qp_num == c.qpn)
				sent(&s.link[i], &c);
}

/* ---- queue pairs ---- */

static struct qp *make_qp(struct node *n, enum ibv_qp_type type, struct srq *srq)
{
	const struct ibv_qp_cap cap = {MESSAGES, srq ? 0 : RECEIVES, 2, srq ? 0 : 2, 0};
	const struct ibv_qp_cap none = {0};
	bool target = type == IBV_QPT_XRC_RECV;
	struct qp *qp = qp_create(&n->hca, target ? NULL : &n->pd, target ? NULL : &n->cq[1],
				  target || type == IBV_QPT_XRC_SEND ? NULL : &n->cq[0], srq, type,
				  target ? &none : &cap, false);

	if (!qp)
		abort();
	if (target)
		qp->domain = s.xrcd[n->index].name;
	return qp;
}

static void move(struct half *h, enum ibv_qp_state to, int mask, struct ibv_qp_attr a)
{
	int err;

	a.qp_state = to;
	lock_take(&h->qp->lock);
	err = engine_modify(h->qp, &a, IBV_QP_STATE | mask, s.world->now);
	lock_drop(&h->qp->lock);
	expect(s.world, NULL, !err, "QP %06x: to state %d says %d", h->qp->base.qp_num, to, err);
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
		h->qp->mtu = 128u << s.mtu; /* the port's, as verbs/ sets it */
	else
		h->qp->path = (struct path){.sgid = s.world->network.gid[h->node->index],
					    .dgid = s.world->network.gid[peer->node->index]};
	move(h, IBV_QPS_RTR, mask[1], a);
	move(h, IBV_QPS_RTS, mask[2], a);
}

/* An older link's receiver, if there is one that takes more. */
static struct link *find_receiver(const struct node *n)
{
	for (uint32_t i = 0; i < s.links; i++)
		if (s.link[i].kind == UD && s.link[i].to->node == n && dice_chance(&s.world->dice, 0.7))
			return &s.link[i];
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
	struct supply **shared = l->kind == XRC ? &s.extended[to->index] : &s.shared[to->index];
	struct link *older = l->kind == UD ? find_receiver(to) : NULL;
	bool shares = is_acknowledged(l) || dice_chance(&s.world->dice, 0.3);

	l->from = (struct half){.node = from, .qp = make_qp(from, types[l->kind][0], NULL)};
	if (older) {
		l->to = older->to;
		l->pool = older->pool;
		return;
	}
	if (shares && !*shared)
		*shared = open_pool(to, l->kind == XRC ? &s.xrcd[to->index] : NULL, true);
	l->pool = shares ? *shared : open_pool(to, NULL, false);
	l->own = (struct half){.node = to, .qp = make_qp(to, types[l->kind][1], l->kind == XRC ? NULL : l->pool->srq)};
	l->to = &l->own;
	if (!shares)
		l->pool->qp = l->to->qp;
}

static void make_link(enum kind kind)
{
	struct world *w = s.world;
	uint32_t from = (uint32_t)dice_below(&w->dice, w->nodes);
	struct link *l = &s.link[s.links];
	struct ibv_qp_attr a = {
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = s.mtu,
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
	s.links++;
	l->ah = (struct ah){.base.pd = &l->from.node->pd.base,
			    .pd = &l->from.node->pd,
			    .path = {.sgid = w->network.gid[l->from.node->index],
				     .dgid = w->network.gid[l->to->node->index]}};
	open_block(&l->source, l->from.node, MESSAGES * ROOM);
	open_block(&l->target, l->to->node, TARGET);
	memset(l->target.bytes + COUNTER, 0, sizeof(uint64_t));
	l->planned = (uint32_t)dice_between(&w->dice, 1, MESSAGES);
	l->tick_at = w->now + dice_below(&w->dice, w->style.pace);
	start(l, &l->from, l->to, a);
	if (l->to == &l->own)
		start(l, &l->own, &l->from, a);
}

static void make_node(struct world *w, uint32_t index)
{
	struct node *n = &w->node[index];

	n->index = index;
	if (hca_init(&n->hca, &ops, (uint8_t)(index + 1), w->seed * NETWORK_NODES + index))
		abort();
	n->pd.hca = &n->hca;
	s.xrcd[index] = (struct xrcd){.hca = &n->hca, .name = {XRCD_PRIVATE, index + 1}};
	for (int i = 0; i < 2; i++)
		if (cq_init(&n->cq[i], &n->hca, 2048))
			abort();
}

/* ---- what happens ---- */

static void answer(struct half *h, const struct packet *question, const union ibv_gid *from)
{
	struct path path = {.sgid = s.world->network.gid[h->node->index], .dgid = *from};
	struct tx tx = {.path = &path};
	bool answers;

	lock_take(&h->qp->lock);
	answers = engine_answer(h->qp, question, from, s.world->now, &tx.packet);
	lock_drop(&h->qp->lock);
	if (answers)
		network_send(&s.world->network, h->node->index, &s.world->turn, &tx, 0, s.world->now);
}

static void take_packet(struct half *h, const struct packet *p, const union ibv_gid *from)
{
	if (p->opcode == OPCODE_QUESTION) {
		answer(h, p, from);
		return;
	}
	lock_take(&h->qp->lock);
	engine_receive(h->qp, p, from, s.world->now);
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
	for (uint32_t i = 0; i < s.links; i++) {
		struct link *l = &s.link[i];

		if (l->from.node->index == to && l->from.qp->base.qp_num == p.dest_qpn)
			take_packet(&l->from, &p, &from);
		if (l->to == &l->own && l->own.node->index == to && l->own.qp->base.qp_num == p.dest_qpn)
			take_packet(&l->own, &p, &from);
	}
}

static void expire(struct half *h)
{
	lock_take(&h->qp->lock);
	engine_expire(h->qp, s.world->now);
	lock_drop(&h->qp->lock);
	run(h);
}

/* One of those who share fails; all others go on. */
static void strike(struct link *l)
{
	say(s.world, NULL, "link %zu fails", (size_t)(l - s.link));
	s.world->struck = l->struck = true;
	move(&l->from, IBV_QPS_ERR, 0, (struct ibv_qp_attr){0});
	run(&l->from);
}

static void tick(struct link *l)
{
	struct world *w = s.world;

	if (l == s.link && w->strike_after && l->posted >= w->strike_after && !l->struck)
		strike(l);
	while (!l->struck && l->posted < l->planned && dice_chance(&w->dice, 0.5))
		post_send(l);
	run(&l->from);
	poll(l->from.node);
	poll(l->to->node);
	refill(l->pool);
	run(l->to);
	l->tick_at = w->now + dice_between(&w->dice, 1, w->style.pace);
}

static void step(struct world *w)
{
	uint64_t when = network_next(&w->network);
	struct half *late = NULL;
	struct link *link = NULL;

	for (uint32_t i = 0; i < s.links; i++) {
		struct link *l = &s.link[i];
		struct half *halves[] = {&l->from, l->to};

		for (int k = 0; k < 2; k++)
			if (halves[k]->deadline < when) {
				late = halves[k];
				when = late->deadline;
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
	else if (late && late->deadline == when)
		expire(late);
	else
		arrive(w);
}

static bool is_over(const struct world *w)
{
	if (w->network.count)
		return false;
	for (uint32_t i = 0; i < s.links; i++) {
		const struct link *l = &s.link[i];

		if ((l->posted < l->planned && !l->struck) || l->from.qp->sq.head != l->from.qp->sq.tail)
			return false;
	}
	return true;
}

/* ---- what must have come of it ---- */

static bool may_be(const struct link *l, uint32_t number, uint32_t i)
{
	const struct message *m = &l->message[number];
	uint8_t byte = l->target.bytes[number * ROOM + i];
	bool writes = m->opcode == IBV_WR_RDMA_WRITE || m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool inside = number < l->posted && i < m->length;

	if (inside && m->opcode == IBV_WR_RDMA_READ)
		return byte == content(l, number, i);
	if (!inside || !writes)
		return byte == UNTOUCHED;
	return byte == content(l, number, i) || (byte == UNTOUCHED && (!is_acknowledged(l) || l->struck));
}

static void check_link(struct link *l)
{
	uint64_t counter;
	uint32_t due = 0;

	for (uint32_t n = 0; n < MESSAGES; n++)
		for (uint32_t i = 0; i < ROOM; i++)
			expect(s.world, NULL, may_be(l, n, i), "link %zu: byte %u of target %u is %02x",
			       (size_t)(l - s.link), i, n, l->target.bytes[n * ROOM + i]);
	for (uint32_t n = 0; n < l->posted; n++)
		due += l->message[n].opcode <= IBV_WR_SEND_WITH_IMM && l->message[n].opcode != IBV_WR_RDMA_WRITE;
	expect(s.world, NULL, l->taken <= due && (l->taken == due || !is_acknowledged(l) || l->struck),
	       "link %zu: %u of %u messages came", (size_t)(l - s.link), l->taken, due);
	for (; l->done < l->posted; l->done++)
		expect(s.world, NULL, !l->message[l->done].signalled && !l->flushed, "request %u never completes",
		       l->done);
	memcpy(&counter, l->target.bytes + COUNTER, sizeof(counter));
	expect(s.world, NULL, counter >= l->succeeded && counter <= l->atomics && (l->struck || counter == l->atomics),
	       "a counter is %lu after %u atomics", counter, l->atomics);
}

static void settle(struct world *w)
{
	uint32_t left[POOLS] = {0}, held[POOLS] = {0};

	for (uint32_t i = 0; i < w->nodes; i++)
		poll(&w->node[i]);
	w->struck = true; /* receives may be flushed */
	for (uint32_t i = 0; i < s.links; i++) {
		struct link *l = &s.link[i];

		held[l->pool - s.pool] += l->to == &l->own;
		move(&l->from, IBV_QPS_ERR, 0, (struct ibv_qp_attr){0});
		move(l->to, IBV_QPS_ERR, 0, (struct ibv_qp_attr){0});
	}
	for (uint32_t i = 0; i < s.pools; i++)
		for (uint32_t k = 0; k < RECEIVES; k++)
			left[i] += s.pool[i].posted[k];
	for (uint32_t i = 0; i < w->nodes; i++)
		poll(&w->node[i]);
	/* of an SRQ, each QP flushes the one that it has begun with at most */
	for (uint32_t i = 0; i < s.pools; i++) {
		uint32_t now = 0;

		for (uint32_t k = 0; k < RECEIVES; k++)
			now += s.pool[i].posted[k];
		expect(w, NULL, s.pool[i].srq ? left[i] - now <= held[i] && s.pool[i].srq->rq.tail - s.pool[i].srq->rq.head == now
					      : now == 0,
		       "pool %u: %u receives were posted, %u are", i, left[i], now);
	}
	for (uint32_t i = 0; i < s.links; i++)
		check_link(&s.link[i]);
}

void services_init(struct world *w, uint64_t seed, const struct options *options)
{
	struct quality quality;
	bool tidy = false;
	uint32_t links;

	memset(&s, 0, sizeof(s));
	s.world = w;
	world_draw(w, seed ^ 0x5e47ce5, options, &quality);
	w->seed = seed;
	w->scenario = &scenario;
	s.mtu = (enum ibv_mtu)dice_between(&w->dice, IBV_MTU_256, IBV_MTU_1024);
	s.lazy = dice_chance(&w->dice, 0.5) ? 0 : 0.9;
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
	for (uint32_t i = 0; i < s.links; i++) {
		struct link *l = &s.link[i];

		qp_destroy(l->from.qp);
		if (l->to == &l->own)
			qp_destroy(l->own.qp);
		close_block(&l->source);
		close_block(&l->target);
	}
	for (uint32_t i = 0; i < s.pools; i++) {
		if (s.pool[i].srq)
			srq_destroy(s.pool[i].srq);
		close_block(&s.pool[i].block);
	}
	for (uint32_t i = 0; i < w->nodes; i++) {
		cq_fini(&w->node[i].cq[0]);
		cq_fini(&w->node[i].cq[1]);
		hca_fini(&w->node[i].hca);
	}
	network_fini(&w->network);
}
