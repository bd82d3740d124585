/* SPDX-License-Identifier: BSD-2-Clause */
/* The device's word on how many of each object there may be: exactly so many, and again after they are gone. */
#include "verbs/fixture.h"

static struct ibv_pd *pd;
static struct ibv_cq *shared_cq;
static char memory[64];

static void *make_pd(void)
{
	return ibv_alloc_pd(context);
}

static int free_pd(void *at)
{
	return ibv_dealloc_pd(at);
}

static void *make_cq(void)
{
	return ibv_create_cq(context, 1, NULL, NULL, 0);
}

static int free_cq(void *at)
{
	return ibv_destroy_cq(at);
}

static void *make_ah(void)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1};

	assert_int_equal(ibv_query_gid(context, 1, 0, &a.grh.dgid), 0);
	return ibv_create_ah(pd, &a);
}

static int free_ah(void *at)
{
	return ibv_destroy_ah(at);
}

static void *make_mr(void)
{
	return ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
}

static int free_mr(void *at)
{
	return ibv_dereg_mr(at);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 1, .max_sge = 1}};

	return ibv_create_srq(pd, &a);
}

static int free_srq(void *at)
{
	return ibv_destroy_srq(at);
}

static void *make_one_qp(void)
{
	return make_qp(pd, shared_cq, &(struct ibv_qp_cap){.max_send_wr = 1});
}

static int free_qp(void *at)
{
	return ibv_destroy_qp(at);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static int free_mw(void *at)
{
	return ibv_dealloc_mw(at);
}

static void *make_wq(void)
{
	struct ibv_wq_init_attr a = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = shared_cq};

	return ibv_create_wq(context, &a);
}

static int free_wq(void *at)
{
	return ibv_destroy_wq(at);
}

static struct ibv_wq *shared_wq;

static void *make_table(void)
{
	struct ibv_rwq_ind_table_init_attr a = {.ind_tbl = &shared_wq};

	return ibv_create_rwq_ind_table(context, &a);
}

static int free_table(void *at)
{
	return ibv_destroy_rwq_ind_table(at);
}

/* A page of device memory. */
static void *make_dm(void)
{
	struct ibv_alloc_dm_attr a = {.length = 4096};

	return ibv_alloc_dm(context, &a);
}

static int free_dm(void *at)
{
	return ibv_free_dm(at);
}

static void fill(int most, int in_use, void *(*make)(void), int (*release)(void *))
{
	int room = most - in_use;
	void **all = calloc((size_t)room, sizeof(*all));

	assert_non_null(all);
	for (int i = 0; i < room; i++)
		if (!(all[i] = make()))
			fail_msg("%d of %d, errno %d", i, room, errno);
	assert_errno(make(), ENOMEM);
	assert_int_equal(release(all[0]), 0);
	assert_non_null(all[0] = make());
	assert_errno(make(), ENOMEM);
	for (int i = 0; i < room; i++)
		assert_int_equal(release(all[i]), 0);
	free(all);
}

static void protection_domains(void **state)
{
	fill(limits.max_pd, 1, make_pd, free_pd);
}

static void completion_queues(void **state)
{
	fill(limits.max_cq, 1, make_cq, free_cq);
}

static void address_handles(void **state)
{
	fill(limits.max_ah, 0, make_ah, free_ah);
}

static void memory_regions(void **state)
{
	const char *quick = getenv("UROCE_QUICK");

	if (quick && *quick) {
		print_message("# a million regions: in the plain build only\n");
		return;
	}
	fill(limits.max_mr, 0, make_mr, free_mr);
}

static void shared_receive_queues(void **state)
{
	fill(limits.max_srq, 0, make_srq, free_srq);
}

static void queue_pairs(void **state)
{
	fill(limits.max_qp, 0, make_one_qp, free_qp);
}

static void memory_windows(void **state)
{
	const char *quick = getenv("UROCE_QUICK");

	if (quick && *quick) {
		print_message("# a million windows: in the plain build only\n");
		return;
	}
	fill(limits.max_mw, 0, make_mw, free_mw);
}

static void work_queues(void **state)
{
	struct ibv_device_attr_ex more;

	assert_int_equal(ibv_query_device_ex(context, NULL, &more), 0);
	fill((int)more.max_wq_type_rq, 0, make_wq, free_wq);
	assert_non_null(shared_wq = make_wq());
	fill((int)more.rss_caps.max_rwq_indirection_tables, 0, make_table, free_table);
	assert_int_equal(free_wq(shared_wq), 0);
	fill((int)more.max_dm_size / 4096, 0, make_dm, free_dm);
}

/* As many entries as the device says, and not one more. */
static void entries_of_queues(void **state)
{
	int most = limits.max_qp_wr, sges = limits.max_sge;
	struct ibv_qp_cap wr = {
		.max_send_wr = (uint32_t)most, .max_recv_wr = (uint32_t)most, .max_send_sge = 1, .max_recv_sge = 1};
	struct ibv_qp_cap sge = {
		.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = (uint32_t)sges, .max_recv_sge = (uint32_t)sges};
	struct ibv_qp *qp = make_qp(pd, shared_cq, &wr);
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_recv_wr empty = {0}, *bad;
	struct ibv_cq *cq;

	assert_non_null(qp);
	assert_int_equal(ibv_modify_qp(qp, &init, INIT_MASK), 0);
	for (int i = 0; i < most; i++)
		assert_int_equal(ibv_post_recv(qp, &empty, &bad), 0);
	assert_int_equal(ibv_post_recv(qp, &empty, &bad), ENOMEM);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_non_null(qp = make_qp(pd, shared_cq, &sge));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_non_null(cq = ibv_create_cq(context, limits.max_cqe, NULL, NULL, 0));
	assert_int_equal(ibv_destroy_cq(cq), 0);

	wr.max_send_wr++;
	assert_errno(make_qp(pd, shared_cq, &wr), EINVAL);
	wr.max_send_wr--, wr.max_recv_wr++;
	assert_errno(make_qp(pd, shared_cq, &wr), EINVAL);
	sge.max_send_sge++;
	assert_errno(make_qp(pd, shared_cq, &sge), EINVAL);
	sge.max_send_sge--, sge.max_recv_sge++;
	assert_errno(make_qp(pd, shared_cq, &sge), EINVAL);
	assert_errno(ibv_create_cq(context, limits.max_cqe + 1, NULL, NULL, 0), EINVAL);
}

static int open_all(void **state)
{
	if (open_context(state))
		return -1;
	pd = make_pd();
	shared_cq = make_cq();
	return pd && shared_cq ? 0 : -1;
}

static int close_all(void **state)
{
	return ibv_destroy_cq(shared_cq) ?: ibv_dealloc_pd(pd) ?: close_context(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(protection_domains),	 cmocka_unit_test(completion_queues),
		cmocka_unit_test(address_handles),	 cmocka_unit_test(memory_regions),
		cmocka_unit_test(shared_receive_queues), cmocka_unit_test(queue_pairs),
		cmocka_unit_test(memory_windows),	 cmocka_unit_test(work_queues),
		cmocka_unit_test(entries_of_queues),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
