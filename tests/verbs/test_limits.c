/* The device's word on how many of each object there may be: exactly so many, and again after they are gone.
 * SPDX-License-Identifier: BSD-2-Clause */
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
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
