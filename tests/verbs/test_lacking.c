/* SPDX-License-Identifier: BSD-2-Clause */
/* What the adapter that UROCE_ADAPTER names (siw without it) does on no queue pair. tests/tools/test_adapters.sh runs
 * it as others. */
#include "verbs/fixture.h"

#include <string.h>

/* The opcodes of RC that are refused. */
static const struct {
	const char *adapter;
	uint32_t opcodes;
} rows[] = {
#define BIT(name) (1u << IBV_WR_##name)
	{"irdma", BIT(ATOMIC_CMP_AND_SWP) | BIT(ATOMIC_FETCH_AND_ADD) | BIT(ATOMIC_WRITE)},
	{"siw", BIT(ATOMIC_CMP_AND_SWP) | BIT(ATOMIC_FETCH_AND_ADD) | BIT(ATOMIC_WRITE) | BIT(SEND_WITH_IMM) |
			BIT(RDMA_WRITE_WITH_IMM) | BIT(BIND_MW) | BIT(LOCAL_INV)},
	{"mlx4", BIT(ATOMIC_WRITE)},
	{"bnxt_re", BIT(ATOMIC_WRITE)},
	{"ionic", BIT(ATOMIC_WRITE)},
	{"cx7", 0},
	{"rxe", 0},
};

static uint32_t refused;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char memory[64];

/* A request that has what it needs, but for windows: those cost more than they show. */
static struct ibv_send_wr request(enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {.opcode = opcode, .sg_list = sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};

	*sge = (struct ibv_sge){(uintptr_t)memory, 8, mr->lkey};
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)memory + 8;
		wr.wr.atomic.rkey = mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)memory + 8;
		wr.wr.rdma.rkey = mr->rkey;
	}
	return wr;
}

static struct ibv_qp *a_qp(void)
{
	struct ibv_qp_cap cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1};
	struct ibv_qp *qp = make_qp(pd, cq, &cap);

	assert_non_null(qp);
	bring(qp, qp, IBV_QPS_RTS);
	bring(qp, qp, IBV_QPS_SQD); /* nothing leaves */
	return qp;
}

static void what_it_lacks_is_refused_where_it_stands_in_the_list(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,	  IBV_WR_SEND_WITH_IMM,	     IBV_WR_RDMA_WRITE,		  IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE,
	};

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		bool lacks = refused >> opcodes[i] & 1;
		struct ibv_sge sge;
		struct ibv_send_wr wr[3], *bad = NULL;
		struct ibv_qp *qp = a_qp();

		wr[0] = wr[2] = request(IBV_WR_RDMA_WRITE, &sge);
		wr[1] = request(opcodes[i], &sge);
		wr[0].next = &wr[1];
		wr[1].next = &wr[2];
		assert_int_equal(ibv_post_send(qp, wr, &bad), lacks ? EINVAL : 0);
		if (lacks)
			assert_ptr_equal(bad, &wr[1]);
		/* how many are in the queue shows by how many more it takes */
		wr[2].next = NULL;
		for (int n = lacks ? 1 : 3; n < 16; n++)
			assert_int_equal(ibv_post_send(qp, &wr[2], &bad), 0);
		assert_int_equal(ibv_post_send(qp, &wr[2], &bad), ENOMEM);
		assert_ptr_equal(bad, &wr[2]);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

static void a_queue_pair_for_what_it_lacks_is_refused(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint64_t flag;
	} ops[] = {
		{IBV_WR_SEND, IBV_QP_EX_WITH_SEND},
		{IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM},
		{IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV},
		{IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE},
		{IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM},
		{IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ},
		{IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD},
		{IBV_WR_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE},
		{IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW},
		{IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV},
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		bool lacks = refused >> ops[i].opcode & 1;
		struct ibv_qp_init_attr_ex a = {
			.qp_type = IBV_QPT_RC,
			.send_cq = cq,
			.recv_cq = cq,
			.cap = {.max_send_wr = 1, .max_send_sge = 1},
			.pd = pd,
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.send_ops_flags = ops[i].flag,
		};
		struct ibv_qp *qp = ibv_create_qp_ex(context, &a);

		if (lacks) {
			assert_null(qp);
			assert_int_equal(errno, EOPNOTSUPP);
		} else {
			assert_non_null(qp);
			assert_int_equal(ibv_destroy_qp(qp), 0);
		}
	}
}

static int open_all(void **state)
{
	if (open_context(state) || !(pd = ibv_alloc_pd(context)) || !(cq = ibv_create_cq(context, 64, NULL, NULL, 0)))
		return -1;
	mr = ibv_reg_mr(pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC);
	return mr ? 0 : -1;
}

static int close_all(void **state)
{
	return ibv_dereg_mr(mr) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) || close_context(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_lacks_is_refused_where_it_stands_in_the_list),
		cmocka_unit_test(a_queue_pair_for_what_it_lacks_is_refused),
	};
	bool known = false;

	setenv("UROCE_ADAPTER", "siw", 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].adapter, getenv("UROCE_ADAPTER"))) {
			refused = rows[i].opcodes;
			known = true;
		}
	if (!known) {
		fprintf(stderr, "no row for UROCE_ADAPTER=%s\n", getenv("UROCE_ADAPTER"));
		return 1;
	}
	enter_namespace();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
