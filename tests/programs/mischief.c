/* SPDX-License-Identifier: BSD-2-Clause */
/* mischief ROUNDS [SEED]: in each round two processes, of three threads each, make whatever calls come to their minds,
 * with arguments good and bad, on queue pairs that they connect to each other's of this or an earlier moment. Then they
 * end, in order or at once. Nothing may crash or hang; a work request that was posted completes at most once, and
 * exactly once if its queue pair is put to an end in order; and memory that nobody was given stays as it is. Prints the
 * seed of a round that goes wrong: the same seed makes the same calls, though not in the same order. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define MUST(x) ((x) ? (void)0 : fail(__LINE__, #x))

enum {
	HOUSES = 2,
	THREADS = 3,
	CALLS = 5000, /* of each thread */
	QPS = 10,
	MRS = 8,
	CQS = 3,
	CQES = 8192,
	DEPTH = 32,
	TICKETS = THREADS * CALLS * 4,
	PAGE = 4096,
	PARTS = 16, /* of the memory; every other one is given to nobody */
	PART = 8 * PAGE,
	UNTOUCHED = 0x5a,
	NOBODY = QPS, /* whose a receive of the SRQ is */
};

enum ticket_state { FREE, OWED, QUIET, DONE, GONE };

struct ticket {
	_Atomic uint8_t state;
	uint8_t qp;
};

/* What the other house knows of one. It may be out of date. */
struct card {
	_Atomic uint32_t qpn[QPS], key[MRS];
	_Atomic uint64_t address[MRS];
};

struct slot {
	pthread_rwlock_t lock; /* who makes and ends it has it alone */
	struct ibv_qp *qp;
	bool has_srq;
	uint32_t first; /* ticket */
	_Atomic int owed;
};

struct region {
	pthread_rwlock_t lock;
	struct ibv_mr *mr;
	_Atomic uint32_t lkey;
	uint8_t *at;
	size_t size;
};

static struct card *cards; /* shared by the houses */
static int house;
static unsigned long seed;
static union ibv_gid gid;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cqs[CQS];
static struct ibv_cq_ex *extended; /* the first of them */
static struct ibv_srq *srq;
static struct slot slots[QPS];
static struct region regions[MRS];
static struct ticket tickets[TICKETS];
static _Atomic uint32_t ticket_count, successes;
static uint8_t *memory;
static _Thread_local uint64_t dice_state;

static void fail(int line, const char *what)
{
	fprintf(stderr, "mischief, seed %lu, house %d, process %d, line %d: %s: %s\n", seed, house, getpid(), line,
		what, strerror(errno));
	abort();
}

static uint32_t dice(uint32_t sides)
{
	dice_state ^= dice_state << 13;
	dice_state ^= dice_state >> 7;
	dice_state ^= dice_state << 17;
	return (uint32_t)(dice_state >> 20) % sides;
}

/* ---- tickets ---- */

static uint32_t draw(uint8_t qp, bool quiet)
{
	uint32_t t = atomic_fetch_add(&ticket_count, 1);

	if (t >= TICKETS)
		return TICKETS;
	tickets[t].qp = qp;
	atomic_store(&tickets[t].state, quiet ? QUIET : OWED);
	if (qp != NOBODY && !quiet)
		atomic_fetch_add(&slots[qp].owed, 1);
	return t;
}

/* It was refused, or its queue pair has gone. */
static void drop(uint32_t t, enum ticket_state to)
{
	uint8_t from = atomic_exchange(&tickets[t].state, to);

	if (from == OWED && tickets[t].qp != NOBODY)
		atomic_fetch_sub(&slots[tickets[t].qp].owed, 1);
}

static void redeem(const struct ibv_wc *wc)
{
	uint8_t from;

	MUST(wc->wr_id < TICKETS);
	from = atomic_exchange(&tickets[wc->wr_id].state, DONE);
	MUST(from == OWED || from == QUIET || from == GONE);
	MUST(wc->status <= IBV_WC_GENERAL_ERR);
	atomic_fetch_add(&successes, wc->status == IBV_WC_SUCCESS);
	if (from == QUIET)
		MUST(wc->status != IBV_WC_SUCCESS); /* nobody asked for that */
	if (from == OWED && tickets[wc->wr_id].qp != NOBODY)
		MUST(atomic_fetch_sub(&slots[tickets[wc->wr_id].qp].owed, 1) > 0);
}

static void poll_one(struct ibv_cq *cq)
{
	struct ibv_wc wc[8];
	struct ibv_poll_cq_attr none = {0};
	int n = 0, error;

	if (cq == cqs[0] && dice(2)) {
		for (error = ibv_start_poll(extended, &none); !error; error = ibv_next_poll(extended), n++)
			redeem(&(struct ibv_wc){.wr_id = extended->wr_id, .status = extended->status});
		MUST(error == ENOENT);
		if (n)
			ibv_end_poll(extended);
		return;
	}
	n = ibv_poll_cq(cq, (int)(1 + dice(8)), wc);
	MUST(n >= 0);
	for (int i = 0; i < n; i++)
		redeem(&wc[i]);
}

static void poll_all(void)
{
	for (int i = 0; i < CQS; i++)
		poll_one(cqs[i]);
}

/* Whose requests are forgotten by the adapter too. */
static void forget(struct slot *s)
{
	uint32_t end = atomic_load(&ticket_count);

	for (uint32_t t = s->first; t < end && t < TICKETS; t++) {
		uint8_t state = atomic_load(&tickets[t].state);

		if (tickets[t].qp == s - slots && (state == OWED || state == QUIET) &&
		    atomic_compare_exchange_strong(&tickets[t].state, &state, GONE) && state == OWED)
			atomic_fetch_sub(&s->owed, 1);
	}
}

/* ---- memory ---- */

static uint8_t *part(uint32_t i)
{
	return memory + (size_t)(2 * i + 1) * PART;
}

static void check_memory(void)
{
	for (int i = 0; i < PARTS; i += 2)
		for (int k = 0; k < PART; k++)
			MUST(memory[i * PART + k] == UNTOUCHED);
}

static void unregister(struct region *r)
{
	if (r->mr)
		MUST(!ibv_dereg_mr(r->mr));
	r->mr = NULL;
}

static void call_register(void)
{
	uint32_t i = dice(MRS), n;
	struct region *r = &regions[i];
	int access = (int)(dice(3) ? 15 : dice(32));

	pthread_rwlock_wrlock(&r->lock);
	if (r->mr && !dice(4))
		MUST(!ibv_rereg_mr(r->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access | IBV_ACCESS_LOCAL_WRITE));
	if (r->mr) {
		atomic_store(&r->lkey, r->mr->lkey);
		atomic_store(&cards[house].key[i], r->mr->rkey);
	}
	if (dice(2))
		unregister(r);
	if (!r->mr) {
		n = dice(PARTS / 2);
		r->size = 256 + dice(PART - 256);
		r->at = part(n) + dice((uint32_t)(PART - r->size));
		if (dice(8))
			access |= IBV_ACCESS_LOCAL_WRITE;
		r->mr = ibv_reg_mr(pd, r->at, r->size, access);
		if (r->mr) {
			atomic_store(&r->lkey, r->mr->lkey);
			atomic_store(&cards[house].key[i], r->mr->rkey);
			atomic_store(&cards[house].address[i], (uintptr_t)r->at);
		}
	}
	pthread_rwlock_unlock(&r->lock);
	if (!dice(8)) {
		struct ibv_mr *mr = ibv_reg_mr(pd, (void *)(uintptr_t)dice(3), (size_t)dice(2) << 40, access);

		if (mr)
			MUST(!ibv_dereg_mr(mr));
	}
}

/* ---- queue pairs ---- */

static struct ibv_qp *create_extended(const struct ibv_qp_init_attr *plain)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = plain->qp_type,
		.send_cq = plain->send_cq,
		.recv_cq = plain->recv_cq,
		.srq = plain->srq,
		.cap = plain->cap,
		.pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	return ibv_create_qp_ex(context, &attr);
}

static void create(struct slot *s)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct ibv_qp_init_attr attr = {
		.qp_type = types[dice(5)],
		.send_cq = cqs[dice(CQS)],
		.recv_cq = cqs[dice(CQS)],
		.srq = dice(4) ? NULL : srq,
		.cap = {1 + dice(DEPTH), 1 + dice(DEPTH), 1 + dice(4), 1 + dice(4), dice(3) * 64},
	};

	if (!dice(20))
		attr.cap.max_send_wr = 1u << (14 + dice(18));
	if (!dice(20))
		attr.qp_type = dice(20);
	if (attr.cap.max_send_wr > DEPTH || attr.qp_type == IBV_QPT_RAW_PACKET) {
		struct ibv_qp *qp = ibv_create_qp(pd, &attr);

		if (qp)
			MUST(!ibv_destroy_qp(qp));
		return;
	}
	s->has_srq = attr.srq;
	s->first = atomic_load(&ticket_count);
	s->qp = dice(2) ? ibv_create_qp(pd, &attr) : create_extended(&attr);
	if (s->qp)
		atomic_store(&cards[house].qpn[s - slots], s->qp->qp_num);
}

/* In order: all that is owed comes. */
static void settle(struct slot *s)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	/* Linux refuses this way from RESET, where nothing is owed */
	MUST(!ibv_modify_qp(s->qp, &attr, IBV_QP_STATE) || s->qp->state == IBV_QPS_RESET);
	while (atomic_load(&s->owed) > 0)
		poll_all();
}

static void destroy(struct slot *s)
{
	if (!s->qp)
		return;
	if (dice(2))
		settle(s);
	MUST(!ibv_destroy_qp(s->qp));
	s->qp = NULL;
	forget(s);
}

static void call_qp(void)
{
	struct slot *s = &slots[dice(QPS)];

	pthread_rwlock_wrlock(&s->lock);
	destroy(s);
	create(s);
	pthread_rwlock_unlock(&s->lock);
}

static struct ibv_qp_attr attributes(uint32_t peer, uint32_t qp)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = 0x1111,
		.qp_access_flags = (int)(dice(8) ? 15 : dice(16)),
		.path_mtu = 1 + dice(5),
		.dest_qp_num = atomic_load(&cards[peer].qpn[qp]),
		.max_dest_rd_atomic = 1 + dice(4),
		.max_rd_atomic = 1 + dice(4),
		.min_rnr_timer = 1,
		.timeout = 1 + dice(8),
		.retry_cnt = dice(3),
		.rnr_retry = dice(3),
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}},
	};
}

static bool is_in_error(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	MUST(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state >= IBV_QPS_SQE;
}

static void reset(struct slot *s)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	if (dice(2))
		settle(s);
	MUST(!ibv_modify_qp(s->qp, &attr, IBV_QP_STATE));
	forget(s);
}

static void call_connect(void)
{
	enum {
		INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT,
		UC_RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
		RC_RTR = UC_RTR | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		RTS = IBV_QP_STATE | IBV_QP_SQ_PSN,
		RC_RTS = RTS | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
	};
	uint32_t n = dice(QPS);
	struct ibv_qp_attr attr = attributes(dice(5) ? 1 - house : house, dice(8) ? n : dice(QPS));
	struct slot *s = &slots[n];

	pthread_rwlock_wrlock(&s->lock);
	if (s->qp && (is_in_error(s->qp) || !dice(10)))
		reset(s);
	if (s->qp) {
		bool ud = s->qp->qp_type == IBV_QPT_UD, rc = s->qp->qp_type == IBV_QPT_RC;

		(void)ibv_modify_qp(s->qp, &attr, ud ? INIT | IBV_QP_QKEY : INIT | IBV_QP_ACCESS_FLAGS);
		attr.qp_state = IBV_QPS_RTR;
		(void)ibv_modify_qp(s->qp, &attr, ud ? IBV_QP_STATE : rc ? RC_RTR : UC_RTR);
		attr.qp_state = IBV_QPS_RTS;
		(void)ibv_modify_qp(s->qp, &attr, rc ? RC_RTS : RTS);
	}
	pthread_rwlock_unlock(&s->lock);
}

/* To any state, with any attributes. */
static void call_modify(void)
{
	struct slot *s = &slots[dice(QPS)];
	struct ibv_qp_attr attr = attributes(dice(2), dice(QPS));
	int mask = dice(2) ? IBV_QP_STATE : (int)dice(1u << 21);
	struct ibv_qp_init_attr init;

	attr.qp_state = dice(9);
	attr.path_mtu = dice(9);
	attr.ah_attr.grh.sgid_index = (uint8_t)(dice(10) ? 0 : dice(256));
	pthread_rwlock_wrlock(&s->lock);
	if (s->qp) {
		if (!ibv_modify_qp(s->qp, &attr, mask) && (mask & IBV_QP_STATE) && attr.qp_state == IBV_QPS_RESET)
			forget(s);
		MUST(!ibv_query_qp(s->qp, &attr, (int)dice(1u << 21), &init));
		MUST(attr.qp_state <= IBV_QPS_ERR);
	}
	pthread_rwlock_unlock(&s->lock);
}

/* ---- requests ---- */

static struct ibv_sge piece(void)
{
	struct region *r = &regions[dice(MRS)];
	struct ibv_sge sge = {.lkey = atomic_load(&r->lkey)};

	/* of a region that may be another one by now: then its key is, too, or it is a mistake that is found */
	pthread_rwlock_rdlock(&r->lock);
	if (r->mr) {
		sge.lkey = r->mr->lkey;
		sge.length = dice(dice(4) ? 200 : (uint32_t)r->size + 1);
		sge.addr = (uintptr_t)r->at + dice((uint32_t)r->size - sge.length + (dice(30) ? 1 : 200));
	}
	pthread_rwlock_unlock(&r->lock);
	if (!dice(200))
		sge.lkey ^= 1u << dice(32);
	if (!dice(100))
		sge.length = dice(UINT32_MAX);
	return sge;
}

static void aim(struct ibv_send_wr *wr)
{
	uint32_t peer = dice(6) ? 1 - (uint32_t)house : (uint32_t)house, n = dice(MRS);
	uint64_t address = atomic_load(&cards[peer].address[n]) + dice(dice(8) ? 256 : PART) / 8 * 8;
	uint32_t key = atomic_load(&cards[peer].key[n]);

	if (!dice(200))
		key ^= 1u << dice(32);
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = address + !dice(200);
		wr->wr.atomic.rkey = key;
		wr->sg_list->length = dice(200) ? 8 : dice(16);
		wr->num_sge = 1;
	} else {
		wr->wr.rdma.remote_addr = address;
		wr->wr.rdma.rkey = key;
	}
}

static void call_send(void)
{
	uint32_t n = dice(QPS), count = 1 + dice(3);
	struct ibv_send_wr wr[3], *bad = NULL;
	struct ibv_sge sge[3][4];
	struct ibv_ah *ah = NULL;
	struct slot *s = &slots[n];
	bool refused = false;
	int error;

	for (uint32_t i = 0; i < count; i++) {
		wr[i] = (struct ibv_send_wr){
			.next = i + 1 < count ? &wr[i + 1] : NULL,
			.sg_list = sge[i],
			.num_sge = (int)(dice(8) ? 1 : dice(5)),
			.opcode = dice(200) ? dice(7) : dice(20),
			.send_flags = dice(3) ? IBV_SEND_SIGNALED : dice(dice(20) ? 16 : 64),
		};
		for (int k = 0; k < 4; k++)
			sge[i][k] = piece();
		if (wr[i].opcode == IBV_WR_LOCAL_INV || wr[i].opcode == IBV_WR_BIND_MW)
			wr[i].opcode = IBV_WR_SEND; /* of windows that there are none of */
		if (wr[i].send_flags & IBV_SEND_INLINE)
			for (int k = 0; k < 4; k++) { /* is read at once, so it has to be there */
				sge[i][k].addr = (uintptr_t)memory;
				sge[i][k].length %= 100;
			}
		aim(&wr[i]);
	}
	pthread_rwlock_rdlock(&s->lock);
	if (s->qp && s->qp->qp_type == IBV_QPT_UD) {
		struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}};

		MUST(ah = ibv_create_ah(pd, &attr));
		for (uint32_t i = 0; i < count; i++) {
			wr[i].wr.ud.ah = ah;
			wr[i].wr.ud.remote_qpn = atomic_load(&cards[dice(2)].qpn[dice(QPS)]);
			wr[i].wr.ud.remote_qkey = dice(10) ? 0x1111 : 0;
		}
	}
	for (uint32_t i = 0; s->qp && i < count; i++)
		wr[i].wr_id = draw((uint8_t)n, !(wr[i].send_flags & IBV_SEND_SIGNALED));
	if (s->qp && wr[count - 1].wr_id < TICKETS) {
		error = ibv_post_send(s->qp, wr, &bad);
		MUST(error >= 0);
		for (uint32_t i = 0; i < count; i++) {
			refused |= error && bad == &wr[i];
			if (refused)
				drop((uint32_t)wr[i].wr_id, FREE);
		}
		MUST(refused == !!error);
	} else {
		for (uint32_t i = 0; s->qp && i < count; i++)
			if (wr[i].wr_id < TICKETS)
				drop((uint32_t)wr[i].wr_id, FREE);
	}
	pthread_rwlock_unlock(&s->lock);
	if (ah)
		MUST(!ibv_destroy_ah(ah));
}

/* SENDs of a batch that is posted as one, or not. */
static void call_build(void)
{
	uint32_t n = dice(QPS), count = dice(4), t[4];
	struct slot *s = &slots[n];
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}};
	struct ibv_ah *ah = NULL;
	struct ibv_qp_ex *ex;

	pthread_rwlock_rdlock(&s->lock);
	ex = s->qp ? ibv_qp_to_qp_ex(s->qp) : NULL;
	if (ex) {
		bool gives_up = !dice(10);

		if (s->qp->qp_type == IBV_QPT_UD)
			MUST(ah = ibv_create_ah(pd, &to));
		ibv_wr_start(ex);
		for (uint32_t i = 0; i < count; i++) {
			struct ibv_sge sge = piece();

			ex->wr_id = t[i] = draw((uint8_t)n, false);
			gives_up |= t[i] >= TICKETS;
			ex->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_send(ex);
			ibv_wr_set_sge(ex, sge.lkey, sge.addr, sge.length);
			if (ah)
				ibv_wr_set_ud_addr(ex, ah, atomic_load(&cards[dice(2)].qpn[dice(QPS)]), 0x1111);
		}
		if (gives_up)
			ibv_wr_abort(ex);
		if (gives_up || ibv_wr_complete(ex))
			for (uint32_t i = 0; i < count; i++)
				if (t[i] < TICKETS)
					drop(t[i], FREE);
	}
	pthread_rwlock_unlock(&s->lock);
	if (ah)
		MUST(!ibv_destroy_ah(ah));
}

static void call_receive(void)
{
	bool shared = !dice(4);
	uint32_t n = dice(QPS), t;
	struct slot *s = &slots[n];
	struct ibv_sge sge[4] = {piece(), piece(), piece(), piece()};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = (int)(dice(4) ? 1 : dice(5))}, *bad = NULL;
	int error = 0;

	pthread_rwlock_rdlock(&s->lock);
	if (shared || (s->qp && !s->has_srq)) {
		wr.wr_id = t = draw((uint8_t)(shared ? NOBODY : n), false);
		if (t < TICKETS)
			error = shared ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(s->qp, &wr, &bad);
		if (error) {
			MUST(bad == &wr);
			drop(t, FREE);
		}
	}
	pthread_rwlock_unlock(&s->lock);
}

/* ---- the rest ---- */

static void call_poll(void)
{
	poll_all();
}

static void call_channel(void)
{
	struct ibv_cq *cq;
	void *of;

	MUST(!ibv_req_notify_cq(cqs[dice(CQS)], (int)dice(2)));
	if (!ibv_get_cq_event(channel, &cq, &of))
		ibv_ack_cq_events(cq, 1);
}

static void call_async(void)
{
	struct ibv_async_event event;

	if (!ibv_get_async_event(context, &event)) {
		MUST(event.event_type <= IBV_EVENT_WQ_FATAL);
		ibv_ack_async_event(&event);
	}
}

static void call_resize(void)
{
	(void)ibv_resize_cq(cqs[dice(CQS)], (int)(dice(4) ? CQES + dice(CQES) : -dice(2)));
}

static void call_query(void)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	union ibv_gid g;

	MUST(!ibv_query_device(context, &device));
	(void)ibv_query_port(context, (uint8_t)dice(3), &port);
	(void)ibv_query_gid(context, (uint8_t)dice(3), (int)dice(300) - 1, &g);
}

static void call_window(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, 1 + dice(3));

	if (mw)
		MUST(!ibv_dealloc_mw(mw));
}

/* Whatever the others are at, the child can use and end its copies (but those that are just being made or ended). */
static void call_fork(void)
{
	pid_t child = fork();
	int status;

	MUST(child >= 0);
	if (!child) {
		struct ibv_poll_cq_attr none = {0};
		struct ibv_wc wc;

		alarm(120);
		for (int i = 0; i < CQS; i++)
			ibv_poll_cq(cqs[i], 1, &wc);
		if (!ibv_start_poll(extended, &none))
			ibv_end_poll(extended);
		for (int i = 0; i < QPS; i++)
			if (!pthread_rwlock_tryrdlock(&slots[i].lock) && slots[i].qp && dice(2))
				ibv_destroy_qp(slots[i].qp);
		for (int i = 0; i < CQS; i++)
			ibv_destroy_cq(cqs[i]);
		for (int i = 0; i < MRS; i++)
			if (!pthread_rwlock_tryrdlock(&regions[i].lock) && regions[i].mr && dice(2))
				ibv_dereg_mr(regions[i].mr);
		ibv_destroy_srq(srq);
		ibv_dealloc_pd(pd);
		ibv_close_device(context);
		_exit(0);
	}
	MUST(waitpid(child, &status, 0) == child);
	if (status) {
		errno = 0;
		fprintf(stderr, "mischief: a child of fork() ended with status %#x\n", status);
	}
	MUST(!status);
}

static void call_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *another;
	struct ibv_pd *its;

	MUST(list && list[0]);
	MUST(another = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	MUST(its = ibv_alloc_pd(another));
	if (dice(2))
		MUST(!ibv_dealloc_pd(its));
	else
		MUST(ibv_close_device(another) == 0 || (!ibv_dealloc_pd(its) && !ibv_close_device(another)));
}

static const struct {
	void (*make)(void);
	uint32_t often;
} calls[] = {
	{call_send, 300}, {call_receive, 200}, {call_poll, 200},   {call_connect, 120}, {call_modify, 15},
	{call_qp, 30},	  {call_register, 20}, {call_channel, 20}, {call_async, 20},	{call_resize, 3},
	{call_query, 5},  {call_window, 5},    {call_device, 2},   {call_fork, 1},	{call_build, 100},
};

static void *live(void *arg)
{
	uint32_t sum = 0;

	dice_state = seed * 2654435761u + (uint64_t)house * 97 + (uintptr_t)arg * 131 + 1;
	for (int i = 0; i < 20; i++)
		dice(2);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		sum += calls[i].often;
	for (int i = 0; i < CALLS; i++) {
		uint32_t which = dice(sum), k = 0;

		while (which >= calls[k].often)
			which -= calls[k++].often;
		calls[k].make();
	}
	return NULL;
}

static void open_house(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 256, .max_sge = 4}};
	struct ibv_cq_init_attr_ex with = {.cqe = CQES, .wc_flags = IBV_WC_STANDARD_FLAGS};

	MUST(list && list[0]);
	MUST(context = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	MUST(!ibv_query_gid(context, 1, 0, &gid));
	MUST(pd = ibv_alloc_pd(context));
	MUST(channel = ibv_create_comp_channel(context));
	MUST(!fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	MUST(!fcntl(context->async_fd, F_SETFL, O_NONBLOCK));
	MUST(extended = ibv_create_cq_ex(context, &with));
	cqs[0] = ibv_cq_ex_to_cq(extended);
	for (int i = 1; i < CQS; i++)
		MUST(cqs[i] = ibv_create_cq(context, CQES, NULL, dice(2) ? channel : NULL, 0));
	MUST(srq = ibv_create_srq(pd, &attr));
	MUST(!posix_memalign((void **)&memory, PAGE, (size_t)PARTS * PART));
	memset(memory, UNTOUCHED, (size_t)PARTS * PART);
	for (int i = 0; i < QPS; i++)
		MUST(!pthread_rwlock_init(&slots[i].lock, NULL));
	for (int i = 0; i < MRS; i++)
		MUST(!pthread_rwlock_init(&regions[i].lock, NULL));
}

/* Against the order where that has to be refused. */
static void close_house(void)
{
	MUST(ibv_dealloc_pd(pd) == EBUSY);
	for (int i = 0; i < QPS; i++)
		destroy(&slots[i]);
	for (int i = 0; i < MRS; i++)
		unregister(&regions[i]);
	for (int i = 0; i < CQS; i++)
		poll_one(cqs[i]);
	MUST(!ibv_destroy_srq(srq));
	for (int i = 0; i < CQS; i++)
		MUST(!ibv_destroy_cq(cqs[i]));
	MUST(!ibv_destroy_comp_channel(channel));
	MUST(!ibv_dealloc_pd(pd));
	MUST(!ibv_close_device(context));
}

static void dwell(void)
{
	pthread_t thread[THREADS];

	MUST(!prctl(PR_SET_PDEATHSIG, SIGKILL));
	dice_state = seed + (uint64_t)house + 1;
	open_house();
	for (uintptr_t i = 0; i < THREADS; i++)
		MUST(!pthread_create(&thread[i], NULL, live, (void *)i));
	for (int i = 0; i < THREADS; i++)
		MUST(!pthread_join(thread[i], NULL));
	check_memory();
	MUST(successes); /* or it was no test */
	if (seed % 3)
		close_house();
	exit(0);
}

int main(int argc, char **argv)
{
	unsigned long rounds, first;

	MUST(argc >= 2);
	rounds = strtoul(argv[1], NULL, 0);
	first = argc > 2 ? strtoul(argv[2], NULL, 0) : (unsigned long)getpid();
	MUST((cards = mmap(NULL, HOUSES * sizeof(*cards), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) !=
	     MAP_FAILED);
	for (seed = first; seed < first + rounds; seed++) {
		pid_t pid[HOUSES];
		int status;

		for (house = 0; house < HOUSES; house++)
			if (!(pid[house] = fork()))
				dwell();
		for (house = 0; house < HOUSES; house++)
			if (waitpid(pid[house], &status, 0) != pid[house] || status) {
				fprintf(stderr, "mischief: house %d ended with status %#x; again: mischief 1 %lu\n",
					house, status, seed);
				return 1;
			}
	}
	printf("mischief: %lu rounds from seed %lu\n", rounds, first);
	return 0;
}
