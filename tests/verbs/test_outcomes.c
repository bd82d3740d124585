/* SPDX-License-Identifier: BSD-2-Clause */
/* What becomes of a mistake, at both ends: one row per mistake that IBTA 9.9 and the man pages define, for each
 * transport. Of XRC they are in test_xrc.c, of groups in test_mcast.c; a device that goes away is in
 * cm/test_interfaces.c. What is refused at once is in test_posts.c (a CQ that is full, too), test_modify.c and
 * test_creation.c. */
#include "verbs/fixture.h"

#include <poll.h>
#include <string.h>

#include "base/cause.h"

enum {
	QKEY = 0x1234,
	GRH = 40,
	NONE = -1, /* no completion */
};

/* Two queue pairs of a transport, and what is changed about them before they are connected. */
struct pair {
	struct side *s;
	enum ibv_qp_type type;
	struct ibv_ah *ah;
	struct ibv_mr *constant;  /* of the responder: may only be read by itself */
	struct ibv_mr *mine;	  /* ... of the requester */
	struct ibv_mr *elsewhere; /* of the responder, in another domain */
	struct ibv_pd *other;
	struct ibv_qp_attr attr[2];
};

/* The request that a row's mistake is made of, sane to begin with: 8 bytes from here to there. */
struct work {
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
	struct ibv_sge receive;
};

struct row {
	const char *name;
	enum ibv_qp_type type;
	enum ibv_wr_opcode opcode;
	void (*prepare)(struct pair *p); /* before they are connected */
	void (*spoil)(struct pair *p, struct work *w);
	int status;		     /* of the request */
	enum ibv_qp_state state;     /* of its queue pair then */
	int receive;		     /* of the receive that is posted at the other end */
	enum ibv_qp_state other;     /* of that queue pair */
	int event;		     /* what is told of it; 0: nothing */
	unsigned cause, other_cause; /* vendor_err of the request and of the receive; of a success 0 */
};

/* ---- mistakes ---- */

static void no_such_rkey(struct pair *p, struct work *w)
{
	if (w->wr.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP)
		w->wr.wr.atomic.rkey = ~w->wr.wr.atomic.rkey;
	else
		w->wr.wr.rdma.rkey = ~w->wr.wr.rdma.rkey;
}

static void beyond_the_region(struct pair *p, struct work *w)
{
	w->wr.wr.rdma.remote_addr += MEMORY - 4;
}

static void before_the_region(struct pair *p, struct work *w)
{
	w->wr.wr.rdma.remote_addr -= 4;
}

static void around_the_end_of_memory(struct pair *p, struct work *w)
{
	w->wr.wr.rdma.remote_addr = UINT64_MAX - 3;
}

static void no_remote_right(struct pair *p, struct work *w)
{
	w->wr.wr.rdma.rkey = p->constant->rkey;
}

static void another_domain(struct pair *p, struct work *w)
{
	w->wr.wr.rdma.rkey = p->elsewhere->rkey;
}

static void unaligned_atomic(struct pair *p, struct work *w)
{
	w->wr.wr.atomic.remote_addr += 4;
}

static void atomic_of_four_bytes(struct pair *p, struct work *w)
{
	w->sge[0].length = 4;
}

static void no_such_lkey(struct pair *p, struct work *w)
{
	w->sge[0].lkey = ~w->sge[0].lkey; /* no region has had it */
}

static void no_such_key(struct pair *p, struct work *w)
{
	no_such_lkey(p, w);
	no_such_rkey(p, w);
}

static void beyond_local_memory(struct pair *p, struct work *w)
{
	w->sge[0].addr += MEMORY;
}

static void second_piece_is_wrong(struct pair *p, struct work *w)
{
	w->wr.num_sge = 2;
	w->sge[1].lkey = ~w->sge[1].lkey;
}

static void read_into_constant(struct pair *p, struct work *w)
{
	w->sge[0].lkey = p->mine->lkey;
}

static void longer_than_the_receive(struct pair *p, struct work *w)
{
	w->receive.length = 4 + (p->type == IBV_QPT_UD ? GRH : 0);
}

static void receive_is_nobodys(struct pair *p, struct work *w)
{
	w->receive.lkey = ~w->receive.lkey;
}

static void receive_may_not_be_written(struct pair *p, struct work *w)
{
	w->receive.lkey = p->constant->lkey;
}

static void wrong_qkey(struct pair *p, struct work *w)
{
	w->wr.wr.ud.remote_qkey = QKEY + 1;
}

static void nobody_there(struct pair *p, struct work *w)
{
	w->wr.wr.ud.remote_qpn ^= 0x8000;
}

static void longer_than_the_mtu(struct pair *p, struct work *w)
{
	w->sge[0].length = 4097;
}

static void no_receive(struct pair *p, struct work *w)
{
	w->receive.lkey = 0; /* none is posted */
}

/* ---- queue pairs that are not as they should be ---- */

static void no_access(struct pair *p)
{
	p->attr[1].qp_access_flags = 0;
}

static void no_resources(struct pair *p)
{
	p->attr[1].max_dest_rd_atomic = 0;
}

static void no_reads(struct pair *p)
{
	p->attr[0].max_rd_atomic = 0;
}

/* With all the time that it takes to be told that there is no receive. */
static void no_patience(struct pair *p)
{
	p->attr[0].rnr_retry = 0;
}

static void wrong_peer(struct pair *p)
{
	p->attr[0].retry_cnt = 0;
	p->attr[0].timeout = 1;
	p->attr[1].dest_qp_num ^= 1; /* RC: its answers go astray */
	p->attr[0].dest_qp_num ^= 0x8000;
}

#define RC  IBV_QPT_RC
#define UC  IBV_QPT_UC
#define UD  IBV_QPT_UD
#define OK  IBV_WC_SUCCESS
#define RTS IBV_QPS_RTS
#define ERR IBV_QPS_ERR
#define SQE IBV_QPS_SQE

/* What becomes of a request, its queue pair, the receive at the other end and its queue pair, and what is told of that.
 */
#define GOOD	      OK, RTS, OK, RTS, 0
#define ALONE	      OK, RTS, NONE, RTS, 0 /* the other end does nothing: it need not, or (UC, UD) it drops what came */
#define NO_ACCESS     IBV_WC_REM_ACCESS_ERR, ERR, IBV_WC_WR_FLUSH_ERR, ERR, IBV_EVENT_QP_ACCESS_ERR
#define REFUSED	      IBV_WC_REM_INV_REQ_ERR, ERR, IBV_WC_WR_FLUSH_ERR, ERR, IBV_EVENT_QP_REQ_ERR
#define BAD_RECEIVE   IBV_WC_REM_OP_ERR, ERR, IBV_WC_LOC_PROT_ERR, ERR, IBV_EVENT_QP_FATAL
#define NOT_READY     IBV_WC_RNR_RETRY_EXC_ERR, ERR, NONE, RTS, 0
#define BAD_MEMORY    IBV_WC_LOC_PROT_ERR, ERR, NONE, RTS, 0
#define SEND_FAILS    IBV_WC_LOC_PROT_ERR, SQE, NONE, RTS, 0
#define RECEIVE_FAILS OK, RTS, IBV_WC_LOC_PROT_ERR, ERR, 0

static const struct row rows[] = {
	/* nothing is wrong */
	{"send", RC, IBV_WR_SEND, NULL, NULL, GOOD},
	{"write", RC, IBV_WR_RDMA_WRITE, NULL, NULL, ALONE},
	{"write with immediate", RC, IBV_WR_RDMA_WRITE_WITH_IMM, NULL, NULL, GOOD},
	{"read", RC, IBV_WR_RDMA_READ, NULL, NULL, ALONE},
	{"atomic", RC, IBV_WR_ATOMIC_FETCH_AND_ADD, NULL, NULL, ALONE},

	/* the responder's memory */
	{"write, no such rkey", RC, IBV_WR_RDMA_WRITE, NULL, no_such_rkey, NO_ACCESS, CAUSE_PEER_ACCESS,
	 CAUSE_FLUSHED | CAUSE_RKEY_UNKNOWN},
	{"read, no such rkey", RC, IBV_WR_RDMA_READ, NULL, no_such_rkey, NO_ACCESS, CAUSE_PEER_ACCESS,
	 CAUSE_FLUSHED | CAUSE_RKEY_UNKNOWN},
	{"atomic, no such rkey", RC, IBV_WR_ATOMIC_CMP_AND_SWP, NULL, no_such_rkey, NO_ACCESS, CAUSE_PEER_ACCESS,
	 CAUSE_FLUSHED | CAUSE_RKEY_UNKNOWN},
	{"write beyond the region", RC, IBV_WR_RDMA_WRITE, NULL, beyond_the_region, NO_ACCESS, CAUSE_PEER_ACCESS,
	 CAUSE_FLUSHED | CAUSE_RKEY_BOUNDS},
	{"read before the region", RC, IBV_WR_RDMA_READ, NULL, before_the_region, NO_ACCESS, CAUSE_PEER_ACCESS,
	 CAUSE_FLUSHED | CAUSE_RKEY_BOUNDS},
	{"write around the end of memory", RC, IBV_WR_RDMA_WRITE, NULL, around_the_end_of_memory, NO_ACCESS,
	 CAUSE_PEER_ACCESS, CAUSE_FLUSHED | CAUSE_RKEY_BOUNDS},
	{"write without the right", RC, IBV_WR_RDMA_WRITE, NULL, no_remote_right, NO_ACCESS, CAUSE_PEER_ACCESS,
	 CAUSE_FLUSHED | CAUSE_RKEY_RIGHTS},
	{"read without the right", RC, IBV_WR_RDMA_READ, NULL, no_remote_right, NO_ACCESS, CAUSE_PEER_ACCESS,
	 CAUSE_FLUSHED | CAUSE_RKEY_RIGHTS},
	{"write, another domain's key", RC, IBV_WR_RDMA_WRITE, NULL, another_domain, NO_ACCESS, CAUSE_PEER_ACCESS,
	 CAUSE_FLUSHED | CAUSE_RKEY_DOMAIN},
	{"write with immediate, no such rkey", RC, IBV_WR_RDMA_WRITE_WITH_IMM, NULL, no_such_rkey,
	 IBV_WC_REM_ACCESS_ERR, ERR, IBV_WC_LOC_ACCESS_ERR, ERR, IBV_EVENT_QP_ACCESS_ERR, CAUSE_PEER_ACCESS,
	 CAUSE_RKEY_UNKNOWN},
	{"unaligned atomic", RC, IBV_WR_ATOMIC_FETCH_AND_ADD, NULL, unaligned_atomic, REFUSED, CAUSE_PEER_INVALID,
	 CAUSE_FLUSHED | CAUSE_UNALIGNED},

	/* the responder's queue pair */
	{"write, not permitted there", RC, IBV_WR_RDMA_WRITE, no_access, NULL, REFUSED, CAUSE_PEER_INVALID,
	 CAUSE_FLUSHED | CAUSE_QP_RIGHTS},
	{"read, not permitted there", RC, IBV_WR_RDMA_READ, no_access, NULL, REFUSED, CAUSE_PEER_INVALID,
	 CAUSE_FLUSHED | CAUSE_QP_RIGHTS},
	{"atomic, not permitted there", RC, IBV_WR_ATOMIC_FETCH_AND_ADD, no_access, NULL, REFUSED, CAUSE_PEER_INVALID,
	 CAUSE_FLUSHED | CAUSE_QP_RIGHTS},
	{"read, no resources there", RC, IBV_WR_RDMA_READ, no_resources, NULL, REFUSED, CAUSE_PEER_INVALID,
	 CAUSE_FLUSHED | CAUSE_TOO_MANY_READS},
	{"send, nobody there", RC, IBV_WR_SEND, wrong_peer, NULL, IBV_WC_RETRY_EXC_ERR, ERR, NONE, RTS, 0,
	 CAUSE_NO_ANSWER},

	/* receives */
	{"longer than the receive", RC, IBV_WR_SEND, NULL, longer_than_the_receive, IBV_WC_REM_INV_REQ_ERR, ERR,
	 IBV_WC_LOC_LEN_ERR, ERR, IBV_EVENT_QP_REQ_ERR, CAUSE_PEER_INVALID, CAUSE_RECEIVE_SHORT},
	{"the receive's key is wrong", RC, IBV_WR_SEND, NULL, receive_is_nobodys, BAD_RECEIVE, CAUSE_PEER_OPERATION,
	 CAUSE_LKEY_UNKNOWN},
	{"the receive may not be written", RC, IBV_WR_SEND, NULL, receive_may_not_be_written, BAD_RECEIVE,
	 CAUSE_PEER_OPERATION, CAUSE_LKEY_RIGHTS},
	{"no receive", RC, IBV_WR_SEND, no_patience, no_receive, NOT_READY, CAUSE_NO_RECEIVE},
	{"no receive for the immediate", RC, IBV_WR_RDMA_WRITE_WITH_IMM, no_patience, no_receive, NOT_READY,
	 CAUSE_NO_RECEIVE},

	/* the requester's own; the peer never hears of it */
	{"no such lkey", RC, IBV_WR_SEND, NULL, no_such_lkey, BAD_MEMORY, CAUSE_LKEY_UNKNOWN},
	{"beyond local memory", RC, IBV_WR_RDMA_WRITE, NULL, beyond_local_memory, BAD_MEMORY, CAUSE_LKEY_BOUNDS},
	{"the second piece is wrong", RC, IBV_WR_SEND, NULL, second_piece_is_wrong, BAD_MEMORY, CAUSE_LKEY_UNKNOWN},
	{"read into what is constant", RC, IBV_WR_RDMA_READ, NULL, read_into_constant, BAD_MEMORY, CAUSE_LKEY_RIGHTS},
	{"atomic of four bytes", RC, IBV_WR_ATOMIC_FETCH_AND_ADD, NULL, atomic_of_four_bytes, IBV_WC_LOC_LEN_ERR, ERR,
	 NONE, RTS, 0, CAUSE_ATOMIC_LENGTH},
	{"read, no such lkey", RC, IBV_WR_RDMA_READ, NULL, no_such_lkey, BAD_MEMORY, CAUSE_LKEY_UNKNOWN},
	{"atomic, no such lkey", RC, IBV_WR_ATOMIC_FETCH_AND_ADD, NULL, no_such_lkey, BAD_MEMORY, CAUSE_LKEY_UNKNOWN},
	{"read, no such key at either end", RC, IBV_WR_RDMA_READ, NULL, no_such_key, NO_ACCESS, CAUSE_PEER_ACCESS,
	 CAUSE_FLUSHED | CAUSE_RKEY_UNKNOWN},
	{"read where none may be", RC, IBV_WR_RDMA_READ, no_reads, NULL, IBV_WC_LOC_QP_OP_ERR, ERR, NONE, RTS, 0,
	 CAUSE_NO_READS},

	/* UC: what is wrong there is dropped, what is wrong here stops the send queue */
	{"uc: send", UC, IBV_WR_SEND, NULL, NULL, GOOD},
	{"uc: write", UC, IBV_WR_RDMA_WRITE, NULL, NULL, ALONE},
	{"uc: write with immediate", UC, IBV_WR_RDMA_WRITE_WITH_IMM, NULL, NULL, GOOD},
	{"uc: write, no such rkey", UC, IBV_WR_RDMA_WRITE, NULL, no_such_rkey, ALONE},
	{"uc: write with immediate, no such rkey", UC, IBV_WR_RDMA_WRITE_WITH_IMM, NULL, no_such_rkey, ALONE},
	{"uc: write, not permitted there", UC, IBV_WR_RDMA_WRITE, no_access, NULL, ALONE},
	{"uc: longer than the receive", UC, IBV_WR_SEND, NULL, longer_than_the_receive, ALONE},
	{"uc: no receive", UC, IBV_WR_SEND, NULL, no_receive, ALONE},
	{"uc: the receive's key is wrong", UC, IBV_WR_SEND, NULL, receive_is_nobodys, RECEIVE_FAILS, 0,
	 CAUSE_LKEY_UNKNOWN},
	{"uc: nobody there", UC, IBV_WR_SEND, wrong_peer, NULL, ALONE},
	{"uc: no such lkey", UC, IBV_WR_SEND, NULL, no_such_lkey, SEND_FAILS, CAUSE_LKEY_UNKNOWN},
	{"uc: the second piece is wrong", UC, IBV_WR_RDMA_WRITE, NULL, second_piece_is_wrong, SEND_FAILS,
	 CAUSE_LKEY_UNKNOWN},

	/* UD */
	{"ud: send", UD, IBV_WR_SEND, NULL, NULL, GOOD},
	{"ud: send with immediate", UD, IBV_WR_SEND_WITH_IMM, NULL, NULL, GOOD},
	{"ud: wrong Q_Key", UD, IBV_WR_SEND, NULL, wrong_qkey, ALONE},
	{"ud: nobody there", UD, IBV_WR_SEND, NULL, nobody_there, ALONE},
	{"ud: longer than the receive", UD, IBV_WR_SEND, NULL, longer_than_the_receive, ALONE},
	{"ud: no receive", UD, IBV_WR_SEND, NULL, no_receive, ALONE},
	{"ud: longer than the MTU", UD, IBV_WR_SEND, NULL, longer_than_the_mtu, IBV_WC_LOC_LEN_ERR, SQE, NONE, RTS, 0,
	 CAUSE_LENGTH},
	{"ud: no such lkey", UD, IBV_WR_SEND, NULL, no_such_lkey, SEND_FAILS, CAUSE_LKEY_UNKNOWN},
	{"ud: the receive's key is wrong", UD, IBV_WR_SEND, NULL, receive_is_nobodys, RECEIVE_FAILS, 0,
	 CAUSE_LKEY_UNKNOWN},
};

/* ---- the pair ---- */

static void move(struct pair *p, int i, enum ibv_qp_state to)
{
	static const int rc[] = {[IBV_QPS_INIT] = INIT_MASK, [IBV_QPS_RTR] = RTR_MASK, [IBV_QPS_RTS] = RTS_MASK};
	static const int uc[] = {[IBV_QPS_INIT] = INIT_MASK,
				 [IBV_QPS_RTR] =
					 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
				 [IBV_QPS_RTS] = IBV_QP_STATE | IBV_QP_SQ_PSN};
	static const int ud[] = {[IBV_QPS_INIT] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
				 [IBV_QPS_RTR] = IBV_QP_STATE,
				 [IBV_QPS_RTS] = IBV_QP_STATE | IBV_QP_SQ_PSN};
	struct ibv_qp_attr a = p->attr[i];

	a.qp_state = to;
	a.qkey = QKEY;
	a.sq_psn = p->s[i].qp->qp_num & 0xfff;
	assert_int_equal(ibv_modify_qp(p->s[i].qp, &a, (p->type == UC ? uc : p->type == UD ? ud : rc)[to]), 0);
}

static void open_pair(struct pair *p, const struct row *row)
{
	struct ibv_ah_attr to;

	p->type = row->type;
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr a = {.send_cq = p->s[i].cq,
					     .recv_cq = p->s[i].cq,
					     .cap = {16, 16, 2, 2, 64},
					     .qp_type = row->type,
					     .sq_sig_all = 1};

		assert_int_equal(ibv_destroy_qp(p->s[i].qp), 0);
		assert_non_null(p->s[i].qp = ibv_create_qp(p->s[i].pd, &a));
	}
	for (int i = 0; i < 2; i++)
		p->attr[i] = attributes(IBV_QPS_INIT, p->s[!i].qp);
	to = p->attr[0].ah_attr;
	if (row->prepare)
		row->prepare(p);
	for (int i = 0; i < 2; i++)
		for (enum ibv_qp_state state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++)
			move(p, i, state);
	assert_non_null(p->ah = ibv_create_ah(p->s[0].pd, &to));
	assert_non_null(p->other = ibv_alloc_pd(context));
	assert_non_null(p->constant = ibv_reg_mr(p->s[1].pd, p->s[1].memory, MEMORY, 0));
	assert_non_null(p->mine = ibv_reg_mr(p->s[0].pd, p->s[0].memory, MEMORY, 0));
	assert_non_null(p->elsewhere = ibv_reg_mr(p->other, p->s[1].memory, MEMORY, ALL_ACCESS));
}

static void close_pair(struct pair *p)
{
	assert_int_equal(ibv_dereg_mr(p->elsewhere), 0);
	assert_int_equal(ibv_dereg_mr(p->mine), 0);
	assert_int_equal(ibv_dereg_mr(p->constant), 0);
	assert_int_equal(ibv_dealloc_pd(p->other), 0);
	assert_int_equal(ibv_destroy_ah(p->ah), 0);
}

static struct work sane(struct pair *p, enum ibv_wr_opcode opcode)
{
	struct work w = {
		.wr = {.wr_id = 1, .num_sge = 1, .opcode = opcode},
		.sge = {piece(&p->s[0], 0, 8), piece(&p->s[0], 64, 8)},
		.receive = piece(&p->s[1], 1024, 1024),
	};
	uint64_t there = (uintptr_t)p->s[1].memory;

	if (p->type == UD) {
		w.wr.wr.ud.ah = p->ah;
		w.wr.wr.ud.remote_qpn = p->s[1].qp->qp_num;
		w.wr.wr.ud.remote_qkey = QKEY;
	} else if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		w.wr.wr.atomic.remote_addr = there;
		w.wr.wr.atomic.rkey = p->s[1].mr->rkey;
	} else {
		w.wr.wr.rdma.remote_addr = there;
		w.wr.wr.rdma.rkey = p->s[1].mr->rkey;
	}
	return w;
}

static int post(struct pair *p, struct work *w)
{
	w->wr.sg_list = w->sge;
	return side_send(&p->s[0], &w->wr);
}

static void post_receive(struct pair *p, struct ibv_sge sge, uint64_t wr_id)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

	if (sge.lkey)
		assert_int_equal(ibv_post_recv(p->s[1].qp, &wr, &bad), 0);
}

/* ---- what came of it ---- */

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
	return a.qp_state;
}

static bool is_told(void)
{
	struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};

	return poll(&fd, 1, 0) > 0;
}

static void expect_event(struct pair *p, int event)
{
	struct ibv_async_event e;

	if (event) {
		assert_int_equal(ibv_get_async_event(context, &e), 0);
		assert_int_equal(e.event_type, event);
		assert_ptr_equal(e.element.qp, p->s[1].qp);
		ibv_ack_async_event(&e);
	}
	assert_false(is_told());
}

/* A message that nothing is wrong with arrives, into the receive with this number. Nothing that was sent before can
 * arrive after it. */
static void prove(struct pair *p, uint64_t into)
{
	struct work w = sane(p, IBV_WR_SEND);
	struct ibv_wc wc;

	assert_int_equal(post(p, &w), 0);
	assert_int_equal(next(p->s[0].cq).status, OK);
	wc = next(p->s[1].cq);
	assert_int_equal(wc.status, OK);
	assert_int_equal(wc.wr_id, into);
}

/* SQE: IBTA 10.3.1.8. What follows is flushed, receives go on; the way back is to RTS. */
static void recover(struct pair *p, const struct row *row)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};
	struct work w = sane(p, IBV_WR_SEND);
	struct ibv_wc wc;

	assert_int_equal(post(p, &w), 0);
	wc = next(p->s[0].cq);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.vendor_err, CAUSE_FLUSHED | row->cause);
	assert_int_equal(ibv_modify_qp(p->s[0].qp, &a, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
}

static void check(struct pair *p, const struct row *row)
{
	struct work w = sane(p, row->opcode);
	struct ibv_wc wc;

	if (row->spoil)
		row->spoil(p, &w);
	post_receive(p, w.receive, 100);
	assert_int_equal(post(p, &w), 0);
	wc = next(p->s[0].cq);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, row->status);
	assert_int_equal(wc.vendor_err, row->cause);
	if (row->receive != NONE) {
		wc = next(p->s[1].cq);
		assert_int_equal(wc.wr_id, 100);
		assert_int_equal(wc.status, row->receive);
		assert_int_equal(wc.vendor_err, row->other_cause);
	}
	assert_int_equal(state_of(p->s[0].qp), row->state);
	if (row->state == SQE)
		recover(p, row);
	if (p->type != RC && row->prepare != wrong_peer && row->other == RTS) {
		bool unused = row->receive == NONE && w.receive.lkey && row->spoil != longer_than_the_receive;

		/* the receive that nobody got is the next one's, if it is large enough for that */
		if (row->spoil == longer_than_the_receive) {
			w = sane(p, IBV_WR_SEND);
			w.sge[0].length = 4;
			assert_int_equal(post(p, &w), 0);
			assert_int_equal(next(p->s[0].cq).status, OK);
			assert_int_equal(next(p->s[1].cq).wr_id, 100);
		}
		post_receive(p, piece(&p->s[1], 1024, 1024), 101);
		prove(p, unused ? 100 : 101);
	}
	assert_int_equal(state_of(p->s[1].qp), row->other);
	expect_event(p, row->event);
	assert_int_equal(ibv_poll_cq(p->s[1].cq, 1, &wc), 0);
	assert_int_equal(ibv_poll_cq(p->s[0].cq, 1, &wc), 0);
}

static void run_row(void **state)
{
	struct side *s = *state;
	struct pair p = {.s = s};
	const struct row *row = (const struct row *)s[2].qp;

	open_pair(&p, row);
	check(&p, row);
	close_pair(&p);
}

static int setup_row(void **state)
{
	const struct row *row = *state;
	struct side *s;

	if (open_sides(state))
		return -1;
	s = realloc(*state, 3 * sizeof(*s));
	s[2].qp = (struct ibv_qp *)row;
	*state = s;
	return 0;
}

int main(void)
{
	struct CMUnitTest tests[sizeof(rows) / sizeof(rows[0])];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		tests[i] = (struct CMUnitTest){rows[i].name, run_row, setup_row, close_sides, (void *)&rows[i]};
	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
