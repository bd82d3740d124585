// SPDX-License-Identifier: BSD-2-Clause
/* Two queue pairs of one process, RC if nothing else is wanted, connected to each other, each with memory of its own;
 * all of it is given back. */
#ifndef TEST_CHECK_PAIR_H
#define TEST_CHECK_PAIR_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define MUST(x) ((x) ? (void)0 : fail(__FILE__, __LINE__, #x))
#define ZERO(x) MUST(is_zero(x))

static inline void fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, strerror(errno));
	exit(1);
}

/* Verbs return an errno, functions of librdmacm -1. */
static inline bool is_zero(int result)
{
	if (result > 0)
		errno = result;
	return !result;
}

enum {
	SIZE = 4096,
	DEPTH = 8,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

struct end {
	struct ibv_cq *cq;
	struct ibv_cq_ex *cq_ex; /* the same; NULL: not extended */
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_ah *ah; /* of UD: to the peer */
	char *memory;
};

struct pair {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_srq *srq; /* NULL: not wanted */
	enum ibv_qp_type type;
	bool gives_up, reads_none;
	uint32_t skew;
	struct end a, b;
};

/* What a row may change. */
struct want {
	uint32_t cqe, depth;
	enum ibv_qp_type type;
	bool signals_all, is_idle; /* idle: not connected */
	bool shares, extends;	   /* an SRQ for both; extended CQs and queue pairs */
	bool gives_up, reads_none; /* rnr_retry 0; max_rd_atomic 0 */
	bool binds;		   /* windows may be bound to the regions */
	bool infiniband;	   /* link layer */
	uint32_t skew;		   /* what b expects beyond the first PSN of a */
};

enum { QKEY = 0x1234 };

static inline void end_create(struct pair *p, struct end *e, const struct want *w, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex cq = {.cqe = w->cqe, .channel = p->channel, .wc_flags = IBV_WC_STANDARD_FLAGS};

	attr->comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr->pd = p->pd;
	attr->send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
	MUST(e->cq_ex = ibv_create_cq_ex(p->context, &cq));
	e->cq = ibv_cq_ex_to_cq(e->cq_ex);
	attr->send_cq = attr->recv_cq = e->cq;
	MUST(e->qp = ibv_create_qp_ex(p->context, attr));
}

static inline void end_open(struct pair *p, struct end *e, const struct want *w)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = p->type,
		.sq_sig_all = w->signals_all,
		.srq = p->srq,
		.cap = {.max_send_wr = w->depth,
			.max_recv_wr = w->depth,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
	};
	struct ibv_qp_init_attr_ex more = {
		.qp_type = p->type, .sq_sig_all = w->signals_all, .srq = p->srq, .cap = attr.cap};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL, .qkey = QKEY};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	*e = (struct end){0};
	MUST(e->memory = aligned_alloc(SIZE, SIZE));
	memset(e->memory, 0, SIZE);
	MUST(e->mr = ibv_reg_mr(p->pd, e->memory, SIZE, ALL | (w->binds ? IBV_ACCESS_MW_BIND : 0)));
	if (w->extends) {
		end_create(p, e, w, &more);
	} else {
		MUST(e->cq = ibv_create_cq(p->context, (int)w->cqe, NULL, p->channel, 0));
		attr.send_cq = attr.recv_cq = e->cq;
		MUST(e->qp = ibv_create_qp(p->pd, &attr));
	}
	ZERO(ibv_modify_qp(e->qp, &init, mask | (p->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
}

static inline void end_connect(struct pair *p, struct end *e, const struct end *to)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qp->qp_num,
		.rq_psn = e == &p->b ? p->skew & 0xffffff : 0,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = p->gives_up ? 0 : 7,
		.max_rd_atomic = !p->reads_none,
	};

	int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	int rts = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (p->type == IBV_QPT_RC) {
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	} else if (p->type == IBV_QPT_UD) {
		rtr = IBV_QP_STATE;
	}
	ZERO(ibv_query_gid(p->context, 1, 0, &attr.ah_attr.grh.dgid));
	ZERO(ibv_modify_qp(e->qp, &attr, rtr));
	attr.qp_state = IBV_QPS_RTS;
	ZERO(ibv_modify_qp(e->qp, &attr, rts));
	if (p->type == IBV_QPT_UD)
		MUST(e->ah = ibv_create_ah(p->pd, &attr.ah_attr));
}

static inline void context_open(struct pair *p)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	*p = (struct pair){0};
	MUST(list && list[0]);
	MUST(p->context = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	MUST(p->pd = ibv_alloc_pd(p->context));
	MUST(p->channel = ibv_create_comp_channel(p->context));
}

static inline void context_close(struct pair *p)
{
	ZERO(ibv_destroy_comp_channel(p->channel));
	ZERO(ibv_dealloc_pd(p->pd));
	ZERO(ibv_close_device(p->context));
}

static inline void pair_open(struct pair *p, struct want w)
{
	struct ibv_srq_init_attr srq = {.attr = {DEPTH, 2}};

	context_open(p);
	p->type = w.type ? w.type : IBV_QPT_RC;
	p->gives_up = w.gives_up;
	p->reads_none = w.reads_none;
	p->skew = w.skew;
	if (w.shares)
		MUST(p->srq = ibv_create_srq(p->pd, &srq));
	w.cqe = w.cqe ? w.cqe : 4 * DEPTH;
	w.depth = w.depth ? w.depth : DEPTH;
	end_open(p, &p->a, &w);
	end_open(p, &p->b, &w);
	if (w.is_idle)
		return;
	end_connect(p, &p->a, &p->b);
	end_connect(p, &p->b, &p->a);
}

static inline void end_close(struct end *e)
{
	if (e->ah)
		ZERO(ibv_destroy_ah(e->ah));
	if (e->qp)
		ZERO(ibv_destroy_qp(e->qp));
	if (e->cq)
		ZERO(ibv_destroy_cq(e->cq));
	if (e->mr)
		ZERO(ibv_dereg_mr(e->mr));
	free(e->memory);
}

static inline void pair_close(struct pair *p)
{
	end_close(&p->a);
	end_close(&p->b);
	if (p->srq)
		ZERO(ibv_destroy_srq(p->srq));
	context_close(p);
}

/* A pair, and a second one. */
struct two {
	struct pair p;
	struct end c, d; /* the second */
};

static inline void two_open(struct two *t)
{
	const struct want want = {.cqe = 4 * DEPTH, .depth = DEPTH};

	pair_open(&t->p, (struct want){0});
	end_open(&t->p, &t->c, &want);
	end_open(&t->p, &t->d, &want);
	end_connect(&t->p, &t->c, &t->d);
	end_connect(&t->p, &t->d, &t->c);
}

static inline void two_close(struct two *t)
{
	end_close(&t->c);
	end_close(&t->d);
	pair_close(&t->p);
}

static inline struct ibv_sge piece(const struct end *e, uint32_t at, uint32_t length)
{
	return (struct ibv_sge){.addr = (uintptr_t)e->memory + at, .length = length, .lkey = e->mr->lkey};
}

static inline void receive(struct end *e, struct ibv_sge sge)
{
	struct ibv_recv_wr wr = {.wr_id = 100, .sg_list = &sge, .num_sge = 1}, *bad;

	ZERO(e->qp->srq ? ibv_post_srq_recv(e->qp->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad));
}

static inline void post(struct end *e, enum ibv_wr_opcode opcode, struct ibv_sge sge, const struct end *to,
			unsigned flags)
{
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = opcode, .sg_list = &sge, .num_sge = 1, .send_flags = flags},
			   *bad;

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->memory;
		wr.wr.atomic.rkey = to->mr->rkey;
	} else if (e->ah) {
		wr.wr.ud.ah = e->ah;
		wr.wr.ud.remote_qpn = to->qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)to->memory;
		wr.wr.rdma.rkey = to->mr->rkey;
	}
	ZERO(ibv_post_send(e->qp, &wr, &bad));
}

static inline struct ibv_wc await(struct end *e)
{
	struct ibv_wc wc;
	int n = 0;

	while (!(n = ibv_poll_cq(e->cq, 1, &wc)))
		;
	MUST(n == 1);
	return wc;
}

#endif
