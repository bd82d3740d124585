/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is paged on demand: it may be anywhere, and it may be gone. */
#include "verbs/fixture.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memory/guarded.h"

enum { PAGES = 4 };

static size_t page;
static bool there; /* the kernel lets us */

static int open_all(void **state)
{
	struct ibv_device_attr_ex a;

	page = (size_t)sysconf(_SC_PAGESIZE);
	if (open_context(state) || ibv_query_device_ex(context, NULL, &a))
		return -1;
	there = a.odp_caps.general_caps & IBV_ODP_SUPPORT;
	return 0;
}

static char *map_pages(void)
{
	char *m = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(m != MAP_FAILED);
	return m;
}

static struct ibv_mr *on_demand(struct ibv_pd *pd, void *memory, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, length, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);

	assert_non_null(mr);
	return mr;
}

static void the_device_says_so(void **state)
{
	const uint32_t ud = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	struct ibv_device_attr_ex a;

	assert_int_equal(ibv_query_device_ex(context, NULL, &a), 0);
	assert_int_equal(a.odp_caps.general_caps, there ? IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT : 0);
	assert_int_equal(a.odp_caps.per_transport_caps.rc_odp_caps, there ? 0xbf : 0);
	assert_int_equal(a.odp_caps.per_transport_caps.uc_odp_caps, there ? ud | IBV_ODP_SUPPORT_WRITE : 0);
	assert_int_equal(a.odp_caps.per_transport_caps.ud_odp_caps, there ? ud : 0);
}

/* The receive is posted, and the memory comes and goes under it. */
static void what_comes_later_can_be_used(void **state)
{
	struct side *s = *state;
	char *m = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = on_demand(s[1].pd, m, page);
	struct ibv_sge to = {(uintptr_t)m, 64, mr->lkey}, from = piece(&s[0], 0, 6);
	struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad;
	struct ibv_send_wr send = {
		.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	connect_sides(s);
	assert_int_equal(ibv_post_recv(s[1].qp, &recv, &bad), 0);
	assert_int_equal(mprotect(m, page, PROT_READ | PROT_WRITE), 0);
	strcpy(s[0].memory, "later");
	assert_int_equal(side_send(&s[0], &send), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
	assert_string_equal(m, "later");
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(m, page);
}

/* One request after the other, each way that bytes go. */
static void all_memory_is_one_region(void **state)
{
	struct side *s = *state;
	struct ibv_mr *mine = on_demand(s[0].pd, NULL, SIZE_MAX), *other = on_demand(s[1].pd, NULL, SIZE_MAX);
	char *a = map_pages(), *b = map_pages();
	struct ibv_sge sge = {(uintptr_t)a + 3, (uint32_t)(2 * page), mine->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)b + 5, other->rkey}};

	connect_sides(s);
	memset(a, 'a', 3 * page);
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(b + 5, a + 3, 2 * page);
	assert_int_equal(b[4] + b[5 + 2 * page], 0);
	memset(b, 'b', 3 * page);
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(b + 5, a + 3, 2 * page);
	*(uint64_t *)b = 40;
	sge.length = 8;
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = (uintptr_t)b;
	wr.wr.atomic.rkey = other->rkey;
	wr.wr.atomic.compare_add = 2;
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)b, 42);
	assert_int_equal(ibv_dereg_mr(mine), 0);
	assert_int_equal(ibv_dereg_mr(other), 0);
	munmap(a, PAGES * page);
	munmap(b, PAGES * page);
}

/* As many packets as there are, of memory that is copied before it is sent. */
static void much_of_it_can_be_sent(void **state)
{
	enum { LENGTH = 4 << 20 };
	struct side *s = *state;
	char *a = malloc(LENGTH), *b = malloc(LENGTH);
	struct ibv_mr *mine = on_demand(s[0].pd, a, LENGTH), *other = on_demand(s[1].pd, b, LENGTH);
	struct ibv_sge sge = {(uintptr_t)a, LENGTH, mine->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)b, other->rkey}};

	connect_sides(s);
	for (int i = 0; i < LENGTH / 4; i++)
		((int *)a)[i] = i;
	memset(b, 0, LENGTH);
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(a, b, LENGTH);
	memset(a, 0, LENGTH);
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(a, b, LENGTH);
	assert_int_equal(ibv_dereg_mr(mine), 0);
	assert_int_equal(ibv_dereg_mr(other), 0);
	free(a);
	free(b);
}

static void advice_is_checked(void **state)
{
	enum { FLUSH = IBV_ADVISE_MR_FLAG_FLUSH };
	struct side *s = *state;
	char *m = map_pages();
	struct ibv_mr *mr = on_demand(s[0].pd, m, PAGES * page), *foreign = on_demand(s[1].pd, m, page);
	struct ibv_mr *readable = ibv_reg_mr(s[0].pd, m, page, IBV_ACCESS_ON_DEMAND);
	struct ibv_mw *mw = ibv_alloc_mw(s[0].pd, IBV_MW_TYPE_1);
	const uint64_t at = (uintptr_t)m;
	const struct {
		int advice;
		uint32_t flags, count;
		struct ibv_sge sge;
		int error;
	} rows[] = {
		{IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 1, {at, 1, mr->lkey}, 0},
		{IBV_ADVISE_MR_ADVICE_PREFETCH, FLUSH, 1, {at, 1, mr->lkey}, 0},
		{IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, 1, {at, 1, mr->lkey}, 0},
		{IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, FLUSH, 1, {at + 1, (uint32_t)page, mr->lkey}, 0},
		{IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, FLUSH, 1, {at, 1, mr->lkey}, 0},
		{IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, FLUSH, 1, {at + 3 * page, 1, mr->lkey}, 0},
		{IBV_ADVISE_MR_ADVICE_PREFETCH, FLUSH, 1, {at, 1, readable->lkey}, 0},
		{IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, FLUSH, 1, {at, 1, readable->lkey}, EPERM},
		{3, 0, 1, {at, 1, mr->lkey}, ENOTSUP},
		{IBV_ADVISE_MR_ADVICE_PREFETCH, 2, 1, {at, 1, mr->lkey}, EINVAL},
		{IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 0, {at, 1, mr->lkey}, EINVAL},
		{IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 1, {at, 1, mr->lkey + 1}, ENOENT},
		{IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 1, {at, 1, foreign->lkey}, EPERM},
		{IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 1, {(uintptr_t)s[0].memory, 1, s[0].mr->lkey}, EINVAL},
		{IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 1, {at, 1, mw->rkey}, ENOENT},
		{IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 1, {at - 1, 1, mr->lkey}, EFAULT},
		{IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 1, {at, (uint32_t)(PAGES * page) + 1, mr->lkey}, EFAULT},
		{IBV_ADVISE_MR_ADVICE_PREFETCH, FLUSH, 1, {at + 3 * page - 1, 2, mr->lkey}, EFAULT}, /* gone */
	};

	munmap(m + 3 * page, page);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_sge sge = rows[i].sge;

		assert_int_equal(ibv_advise_mr(s[0].pd, rows[i].advice, rows[i].flags, &sge, rows[i].count),
				 rows[i].error);
	}
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dereg_mr(foreign), 0);
	assert_int_equal(ibv_dereg_mr(readable), 0);
	munmap(m, 3 * page);
}

static void prefetching_brings_pages(void **state)
{
	struct side *s = *state;
	char *m = map_pages();
	struct ibv_mr *mr = on_demand(s[0].pd, m, PAGES * page);
	struct ibv_sge sge = {(uintptr_t)m, (uint32_t)(PAGES * page), mr->lkey};
	unsigned char in[PAGES];

	assert_int_equal(ibv_advise_mr(s[0].pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			 0);
	assert_int_equal(mincore(m, PAGES * page, in), 0);
	for (int i = 0; i < PAGES; i++)
		assert_int_equal(in[i] & 1, 1);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(m, PAGES * page);
}

int main(void)
{
#define WITH_SIDES(name) cmocka_unit_test_setup_teardown(name, open_sides, close_sides)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_device_says_so), WITH_SIDES(what_comes_later_can_be_used),
		WITH_SIDES(all_memory_is_one_region), WITH_SIDES(much_of_it_can_be_sent),
		WITH_SIDES(advice_is_checked),	      WITH_SIDES(prefetching_brings_pages),
	};

	const struct CMUnitTest without[] = {
		cmocka_unit_test(the_device_says_so),
	};

	enter_namespace();
	if (!guarded_available()) { /* and so the device does not offer it */
		print_message("# all but one skipped: no process_vm_writev() here\n");
		return cmocka_run_group_tests(without, open_all, close_context);
	}
	return cmocka_run_group_tests(tests, open_all, close_context);
}
