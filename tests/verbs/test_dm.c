/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory. */
#include "verbs/fixture.h"

#include <string.h>
#include <unistd.h>

static uint64_t most;

static int open_all(void **state)
{
	struct ibv_device_attr_ex a;

	if (open_context(state) || ibv_query_device_ex(context, NULL, &a))
		return -1;
	most = a.max_dm_size;
	return 0;
}

static struct ibv_dm *alloc(size_t length)
{
	struct ibv_alloc_dm_attr a = {.length = length};

	return ibv_alloc_dm(context, &a);
}

static void there_is_as_much_as_the_device_says(void **state)
{
	struct ibv_dm *all = alloc(most), *half;

	assert_non_null(all);
	assert_errno(alloc(1), ENOMEM);
	assert_int_equal(ibv_free_dm(all), 0);
	assert_errno(alloc(most + 1), ENOMEM);
	assert_errno(alloc(SIZE_MAX), ENOMEM);
	assert_non_null(half = alloc(most / 2 + 1));
	assert_errno(alloc(most / 2), ENOMEM);
	assert_non_null(all = alloc(most / 2 - 1));
	assert_int_equal(ibv_free_dm(half), 0);
	assert_int_equal(ibv_free_dm(all), 0);
}

static void what_is_asked_for_is_checked(void **state)
{
	static const struct {
		struct ibv_alloc_dm_attr attr;
		int error;
	} rows[] = {
		{{64, 0, 0}, 0},     {{100, 3, 0}, 0},	    {{64, 12, 0}, 0},
		{{0, 0, 0}, EINVAL}, {{64, 13, 0}, EINVAL}, {{64, 0, 1}, EINVAL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_alloc_dm_attr a = rows[i].attr;
		struct ibv_dm *dm;

		errno = 0;
		dm = ibv_alloc_dm(context, &a);
		assert_int_equal(dm ? 0 : errno, rows[i].error);
		if (dm)
			assert_int_equal(ibv_free_dm(dm), 0);
	}
}

static void it_is_reached_in_words(void **state)
{
	struct ibv_dm *dm = alloc(100);
	char in[100], out[100];
	static const struct {
		uint64_t offset;
		size_t length;
		int error;
	} rows[] = {
		{0, 100, 0},
		{0, 0, 0},
		{100, 0, 0},
		{96, 4, 0},
		{2, 4, EINVAL},
		{4, 2, EINVAL},
		{96, 8, EINVAL},
		{104, 4, EINVAL},
		{0, 104, EINVAL},
		{4, SIZE_MAX - 3, EINVAL},
		{UINT64_MAX - 3, 4, EINVAL},
	};

	for (int i = 0; i < 100; i++)
		in[i] = (char)(i + 1);
	assert_int_equal(ibv_memcpy_from_dm(out, dm, 0, 100), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(out[i], 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(ibv_memcpy_to_dm(dm, rows[i].offset, in, rows[i].length), rows[i].error);
		assert_int_equal(ibv_memcpy_from_dm(out, dm, rows[i].offset, rows[i].length), rows[i].error);
		if (!rows[i].error)
			assert_memory_equal(in, out, rows[i].length);
	}
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void registering_is_checked(void **state)
{
	enum { ZERO = IBV_ACCESS_ZERO_BASED, W = IBV_ACCESS_LOCAL_WRITE };
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_dm *dm = alloc(100);
	static const struct {
		uint64_t offset;
		size_t length;
		unsigned access;
		int error;
	} rows[] = {
		{0, 100, ZERO, 0},
		{50, 50, ZERO | W, 0},
		{50, 50, ZERO | ALL_ACCESS | IBV_ACCESS_RELAXED_ORDERING, 0},
		{100, 0, ZERO, 0},
		{0, 100, W, EINVAL},
		{0, 100, ZERO | IBV_ACCESS_REMOTE_WRITE, EINVAL},
		{0, 100, ZERO | IBV_ACCESS_MW_BIND, EINVAL},
		{0, 100, ZERO | IBV_ACCESS_ON_DEMAND, EINVAL},
		{0, 101, ZERO, EINVAL},
		{101, 0, ZERO, EINVAL},
		{8, SIZE_MAX, ZERO, EINVAL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_mr *mr;

		errno = 0;
		mr = ibv_reg_dm_mr(pd, dm, rows[i].offset, rows[i].length, rows[i].access);
		assert_int_equal(mr ? 0 : errno, rows[i].error);
		if (!mr)
			continue;
		assert_null(mr->addr);
		assert_int_equal(mr->length, rows[i].length);
		assert_int_equal(ibv_free_dm(dm), EBUSY);
		assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void peers_reach_it_by_offset(void **state)
{
	struct side *s = *state;
	struct ibv_dm *dm = alloc(256);
	struct ibv_mr *mr = ibv_reg_dm_mr(s[1].pd, dm, 128, 128, ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
	struct ibv_sge sge = piece(&s[0], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {8, mr->rkey}};
	char out[8];

	connect_sides(s);
	memcpy(s[0].memory, "inside.", 8);
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_memcpy_from_dm(out, dm, 128 + 8, 8), 0);
	assert_string_equal(out, "inside.");
	wr.wr.rdma.remote_addr = 121;
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

#if RDMA_CORE >= 35 /* which tells what a device memory is called */
static void it_can_be_imported(void **state)
{
	struct ibv_context *other = ibv_import_device(dup(context->cmd_fd));
	struct ibv_dm *dm = alloc(64), *import;
	int word = 7;

	assert_non_null(other);
	assert_non_null(import = ibv_import_dm(other, dm->handle));
	assert_int_equal(ibv_memcpy_to_dm(dm, 60, &word, 4), 0);
	word = 0;
	assert_int_equal(ibv_memcpy_from_dm(&word, import, 60, 4), 0);
	assert_int_equal(word, 7);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	assert_int_equal(ibv_free_dm(import), EINVAL);
	ibv_unimport_dm(import);
	assert_errno(ibv_import_dm(other, dm->handle + 1), ENOENT);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_close_device(other), 0);
}
#endif

int main(void)
{
#define WITH_SIDES(name) cmocka_unit_test_setup_teardown(name, open_sides, close_sides)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_is_as_much_as_the_device_says),
		cmocka_unit_test(what_is_asked_for_is_checked),
		cmocka_unit_test(it_is_reached_in_words),
		cmocka_unit_test(registering_is_checked),
		WITH_SIDES(peers_reach_it_by_offset),
#if RDMA_CORE >= 35
		cmocka_unit_test(it_can_be_imported),
#endif
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_all, close_context);
}
