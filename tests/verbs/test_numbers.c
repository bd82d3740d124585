/* SPDX-License-Identifier: BSD-2-Clause */
/* A device has as many queue pairs and regions as the adapter that UROCE_ADAPTER names (apple without it), and not one
 * more. tests/tools/test_adapters.sh runs it as others. What is beyond uroce's own limits is verbs/test_limits.c's. */
#include "verbs/fixture.h"

#include <string.h>

enum { MANY = 5000 }; /* more of them show nothing more */

/* What such an adapter has. */
static const struct {
	const char *adapter;
	enum ibv_qp_type type;
	int qps, regions; /* 0: too many for a test */
	int error;	  /* of one queue pair more */
} rows[] =
	{
		{"apple", IBV_QPT_UC, 10, 100, EBUSY},
		{"irdma", IBV_QPT_RC, 4092, 0, ENOMEM},
},
  *row;

/* Two contexts of one device, and one of another. */
static struct ibv_context *of[3];
static struct ibv_pd *pd[3];
static struct ibv_cq *cq[3];
static char memory[64];

static void *make_one_qp(int on)
{
	struct ibv_qp_init_attr a = {.send_cq = cq[on],
				     .recv_cq = cq[on],
				     .qp_type = row->type,
				     .cap = {.max_send_wr = 1, .max_send_sge = 1}};

	return ibv_create_qp(pd[on], &a);
}

static int free_qp(void *at)
{
	return ibv_destroy_qp(at);
}

static void *make_mr(int on)
{
	return ibv_reg_mr(pd[on], memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
}

static int free_mr(void *at)
{
	return ibv_dereg_mr(at);
}

static void fill(int most, int error, void *(*make)(int on), int (*release)(void *))
{
	void *all[MANY], *other;

	for (int i = 0; i < most; i++)
		if (!(all[i] = make(i & 1)))
			fail_msg("%d of %d, errno %d", i, most, errno);
	for (int i = 0; i < 3; i++) /* what is refused is not counted */
		assert_errno(make(i & 1), error);
	assert_non_null(other = make(2));
	assert_int_equal(release(other), 0);
	assert_int_equal(release(all[0]), 0);
	assert_non_null(all[0] = make(1));
	assert_errno(make(0), error);
	for (int i = 0; i < most; i++)
		assert_int_equal(release(all[i]), 0);
}

static void a_device_has_so_many_queue_pairs(void **state)
{
	struct ibv_device_attr a;

	(void)state;
	assert_int_equal(ibv_query_device(of[0], &a), 0);
	assert_int_equal(a.max_qp, row->qps);
	fill(row->qps, row->error, make_one_qp, free_qp);
}

static void a_device_has_so_many_regions(void **state)
{
	struct ibv_device_attr a;

	(void)state;
	assert_int_equal(ibv_query_device(of[0], &a), 0);
	if (!row->regions) {
		assert_true(a.max_mr > MANY);
		return;
	}
	assert_int_equal(a.max_mr, row->regions);
	fill(row->regions, ENOMEM, make_mr, free_mr);
}

/* Apple: of requests only SENDs, of queue pairs only UC. */
static void only_what_it_has_is_there(void **state)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq[0], .recv_cq = cq[0], .cap = {.max_send_wr = 4095, .max_send_sge = 1}};
	const enum ibv_qp_type others[] = {IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_RAW_PACKET};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE}, *bad;
	struct ibv_port_attr port;
	struct ibv_qp *qp;

	(void)state;
	if (row->type != IBV_QPT_UC)
		return;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		a.qp_type = others[i];
		assert_errno(ibv_create_qp(pd[0], &a), EOPNOTSUPP);
	}
	a.qp_type = IBV_QPT_UC;
	a.cap.max_send_wr++;
	assert_errno(ibv_create_qp(pd[0], &a), EINVAL);
	a.cap = (struct ibv_qp_cap){.max_send_wr = 4095, .max_send_sge = 1};
	assert_non_null(qp = ibv_create_qp(pd[0], &a));
	for (; wr.opcode <= IBV_WR_RDMA_WRITE_WITH_IMM; wr.opcode++)
		assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_null(ibv_create_srq(pd[0], &(struct ibv_srq_init_attr){.attr = {.max_wr = 1, .max_sge = 1}}));
	assert_int_equal(ibv_query_port(of[0], 1, &port), 0);
	assert_int_equal(port.max_msg_sz, 4095 * 4096);
}

static int open_all(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	(void)state;
	assert_non_null(list && list[0] ? list[1] : NULL);
	for (int i = 0; i < 3; i++) {
		assert_non_null(of[i] = ibv_open_device(list[i / 2]));
		assert_non_null(pd[i] = ibv_alloc_pd(of[i]));
		assert_non_null(cq[i] = ibv_create_cq(of[i], 1, NULL, NULL, 0));
	}
	ibv_free_device_list(list);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		if (ibv_destroy_cq(cq[i]) || ibv_dealloc_pd(pd[i]) || ibv_close_device(of[i]))
			return -1;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_has_so_many_queue_pairs),
		cmocka_unit_test(a_device_has_so_many_regions),
		cmocka_unit_test(only_what_it_has_is_there),
	};

	setenv("UROCE_ADAPTER", "apple", 0);
	setenv("UROCE_DEVICES", "127.0.0.1..127.0.0.2", 1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].adapter, getenv("UROCE_ADAPTER")))
			row = &rows[i];
	if (!row) {
		fprintf(stderr, "no row for UROCE_ADAPTER=%s\n", getenv("UROCE_ADAPTER"));
		return 1;
	}
	enter_namespace();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
