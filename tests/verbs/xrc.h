/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC ends, as tests have them: an initiator and a target that are connected, and an SRQ to send to. */
#ifndef TEST_XRC_H
#define TEST_XRC_H

#include "verbs/fixture.h"

#include <fcntl.h>

enum {
	LENGTH = 3000, /* three packets */
	HALF = MEMORY / 2,
};

struct ends {
	struct ibv_xrcd *xrcd;
	struct ibv_pd *pd, *target_pd;
	struct ibv_cq *cq, *srq_cq;
	struct ibv_srq *srq;
	struct ibv_qp *ini, *tgt;
	struct ibv_mr *mr, *target_mr; /* of the two halves of the memory */
	char *memory;
	uint32_t srqn;
};

static inline struct ibv_xrcd *open_domain(int fd, int oflags)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = oflags};

	return ibv_open_xrcd(context, &a);
}

static inline struct ibv_srq *make_srq(struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex a = {
		.attr = {.max_wr = 8, .max_sge = 2},
		.comp_mask =
			IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq,
	};

	return ibv_create_srq_ex(context, &a);
}

static inline struct ibv_qp *make_target(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex a = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	return ibv_create_qp_ex(context, &a);
}

static inline struct ibv_qp *make_initiator(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
		.send_cq = cq,
		.cap = {.max_send_wr = 8, .max_send_sge = 1, .max_inline_data = 64},
	};

	return ibv_create_qp_ex(context, &a);
}

static inline uint32_t number_of(struct ibv_srq *srq)
{
	uint32_t number = 0;

	assert_int_equal(ibv_get_srq_num(srq, &number), 0);
	return number;
}

static inline void connect_ends(struct ends *e)
{
	bring(e->tgt, e->ini, IBV_QPS_RTS);
	bring(e->ini, e->tgt, IBV_QPS_RTS);
}

static inline int open_ends(void **state)
{
	struct ends *e = calloc(1, sizeof(*e));

	assert_non_null(e->xrcd = open_domain(-1, O_CREAT));
	assert_non_null(e->pd = ibv_alloc_pd(context));
	assert_non_null(e->target_pd = ibv_alloc_pd(context));
	assert_non_null(e->cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	assert_non_null(e->srq_cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	assert_non_null(e->memory = calloc(1, MEMORY));
	assert_non_null(e->mr = ibv_reg_mr(e->pd, e->memory, HALF, ALL_ACCESS));
	assert_non_null(e->target_mr = ibv_reg_mr(e->target_pd, e->memory + HALF, HALF, ALL_ACCESS));
	assert_non_null(e->srq = make_srq(e->target_pd, e->xrcd, e->srq_cq));
	assert_non_null(e->tgt = make_target(e->xrcd));
	assert_non_null(e->ini = make_initiator(e->pd, e->cq));
	e->srqn = number_of(e->srq);
	connect_ends(e);
	*state = e;
	return 0;
}

static inline int close_ends(void **state)
{
	struct ends *e = *state;

	assert_int_equal(ibv_destroy_qp(e->ini), 0);
	assert_int_equal(ibv_destroy_qp(e->tgt), 0);
	if (e->srq)
		assert_int_equal(ibv_destroy_srq(e->srq), 0);
	assert_int_equal(ibv_close_xrcd(e->xrcd), 0);
	assert_int_equal(ibv_dereg_mr(e->mr), 0);
	assert_int_equal(ibv_dereg_mr(e->target_mr), 0);
	assert_int_equal(ibv_destroy_cq(e->cq), 0);
	assert_int_equal(ibv_destroy_cq(e->srq_cq), 0);
	assert_int_equal(ibv_dealloc_pd(e->pd), 0);
	assert_int_equal(ibv_dealloc_pd(e->target_pd), 0);
	free(e->memory);
	free(e);
	return 0;
}

static inline void receive(struct ends *e, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)e->memory + HALF, length, e->target_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(e->srq, &wr, &bad), 0);
}

static inline int post(struct ends *e, enum ibv_wr_opcode opcode, uint32_t srqn, uint32_t rkey, uint32_t length)
{
	bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sge = {(uintptr_t)e->memory, length, e->mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .wr_id = 8,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = opcode,
					 .send_flags = IBV_SEND_SIGNALED,
					 .imm_data = 0x12345678,
					 .qp_type.xrc.remote_srqn = srqn,
				 };

	if (atomic) {
		wr.wr.atomic.remote_addr = (uintptr_t)e->memory + HALF;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)e->memory + HALF;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(e->ini, &wr, &bad);
}

static inline enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static inline struct ibv_qp *open_qp(struct ibv_xrcd *xrcd, uint32_t number)
{
	struct ibv_qp_open_attr a = {
		.comp_mask =
			IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = number,
		.xrcd = xrcd,
		.qp_context = &number,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(context, &a);
}

#endif
