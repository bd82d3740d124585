/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions: what may be registered, and what may not. */
#include "verbs/fixture.h"

#include <dlfcn.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
#define MOVES false /* it has a thread of its own */
#else
#define MOVES true
#endif

static struct ibv_pd *pd;
static char *memory; /* three pages: the middle one read-only */
static long page;

enum {
	W = IBV_ACCESS_LOCAL_WRITE,
	RW = IBV_ACCESS_REMOTE_WRITE,
	RR = IBV_ACCESS_REMOTE_READ,
	RA = IBV_ACCESS_REMOTE_ATOMIC,
};

static bool has_odp(void)
{
	struct ibv_device_attr_ex a;

	assert_int_equal(ibv_query_device_ex(context, NULL, &a), 0);
	return a.odp_caps.general_caps;
}

static int open_all(void **state)
{
	page = sysconf(_SC_PAGESIZE);
	memory = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (open_context(state) || memory == MAP_FAILED || mprotect(memory + page, page, PROT_READ))
		return -1;
	pd = ibv_alloc_pd(context);
	return pd ? 0 : -1;
}

static int close_all(void **state)
{
	return ibv_dealloc_pd(pd) ?: close_context(state);
}

static void access_flags_are_checked(void **state)
{
	const bool odp = has_odp();
	const struct {
		unsigned access;
		int error;
	} rows[] = {
		{0, 0},
		{W, 0},
		{RR, 0},
		{W | RW, 0},
		{W | RA, 0},
		{W | RW | RR | RA, 0},
		{W | IBV_ACCESS_RELAXED_ORDERING, 0},
		{W | IBV_ACCESS_ZERO_BASED, 0},
		{W | IBV_ACCESS_MW_BIND, 0},
		{W | IBV_ACCESS_OPTIONAL_RANGE, 0}, /* whatever it means, it may be ignored */
		{RW, EINVAL},
		{RA, EINVAL},
		{RW | RA | RR, EINVAL},
		{1 << 8, EOPNOTSUPP}, /* FLUSH */
		{1u << 30, EINVAL},
		{W | IBV_ACCESS_ON_DEMAND, odp ? 0 : EOPNOTSUPP},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_mr *mr;

		errno = 0;
		mr = ibv_reg_mr(pd, memory, page, rows[i].access);
		assert_int_equal(mr ? 0 : errno, rows[i].error);
		if (mr)
			assert_int_equal(ibv_dereg_mr(mr), 0);
	}
}

static void memory_must_be_there(void **state)
{
	char *gone = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct {
		void *address;
		size_t length;
		unsigned access;
		int error;
	} rows[] = {
		{memory, page, W, 0},
		{memory + page, page, 0, 0},
		{memory + page, page, RR, 0},
		{memory + page, page, W, EFAULT}, /* read-only */
		{memory, 3 * page, 0, 0},
		{memory, 3 * page, W, EFAULT},
		{memory + page - 1, 2, W, EFAULT},
		{memory + page - 1, 1, W, 0},
		{gone, 1, 0, EFAULT}, /* PROT_NONE */
		{NULL, 1, 0, EFAULT},
		{(void *)4096, 1, 0, EFAULT}, /* where nothing can be mapped (vm.mmap_min_addr) */
		{NULL, 0, 0, EINVAL},	      /* no page */
		{gone, 0, 0, EINVAL},
		{gone + 1, 0, 0, EFAULT},
		{memory + 1, 0, 0, 0},
		{memory, SIZE_MAX, 0, EINVAL}, /* wraps */
		{(void *)(UINTPTR_MAX - 1), 16, 0, EINVAL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_mr *mr;

		errno = 0;
		mr = ibv_reg_mr(pd, rows[i].address, rows[i].length, rows[i].access);
		assert_int_equal(mr ? 0 : errno, rows[i].error);
		if (mr)
			assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	munmap(gone, page);
}

static void regions_may_overlap(void **state)
{
	struct ibv_mr *a = ibv_reg_mr(pd, memory, page, W), *b = ibv_reg_mr(pd, memory, page, W);
	struct ibv_mr *c = ibv_reg_mr(pd, memory + 7, 9, W);

	assert_true(a && b && c);
	assert_true(a->lkey != b->lkey && b->lkey != c->lkey && a->lkey != c->lkey);
	assert_ptr_equal(c->addr, memory + 7);
	assert_int_equal(c->length, 9);
	assert_ptr_equal(a->pd, pd);
	assert_ptr_equal(a->context, context);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(b), 0);
	assert_int_equal(ibv_dereg_mr(a), 0);
	assert_int_equal(ibv_dereg_mr(c), 0);
}

static void a_huge_region_touches_no_page(void **state)
{
	size_t size = (size_t)1 << 40;
	struct rusage before, after;
	char *huge = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_mr *mr;

	if (huge == MAP_FAILED) {
		print_message("# skipped: a terabyte of addresses cannot be had\n");
		return;
	}
	getrusage(RUSAGE_SELF, &before);
	mr = ibv_reg_mr(pd, huge, size, W | RW | RR);
	getrusage(RUSAGE_SELF, &after);
	assert_non_null(mr);
	assert_in_range(after.ru_minflt - before.ru_minflt, 0, 100);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(huge, size);
}

static void reregistering_tells_what_went_wrong(void **state)
{
	enum {
		TRANSLATION = IBV_REREG_MR_CHANGE_TRANSLATION,
		PD = IBV_REREG_MR_CHANGE_PD,
		ACCESS = IBV_REREG_MR_CHANGE_ACCESS,
		INPUT = IBV_REREG_MR_ERR_INPUT,
		CMD = IBV_REREG_MR_ERR_CMD,
	};
	struct ibv_pd *other = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, page, W);
	const struct {
		int flags, access, result;
		struct ibv_pd *pd;
		void *address;
		size_t length;
	} rows[] = {
		{0, 0, INPUT, NULL, NULL, 0},
		{8, 0, INPUT, NULL, NULL, 0},
		{TRANSLATION, 0, INPUT, NULL, NULL, 1},
		{TRANSLATION, 0, INPUT, NULL, memory, 0},
		{PD, 0, INPUT, NULL, NULL, 0},
		{ACCESS, -1, INPUT, NULL, NULL, 0},
		{ACCESS, RW, CMD, NULL, NULL, 0},
		{TRANSLATION, 0, CMD, NULL, memory + page, 1}, /* read-only, and it stays writable */
		{TRANSLATION | ACCESS, 0, 0, NULL, memory + page, 1},
		{TRANSLATION | ACCESS, W | RW, 0, NULL, memory + 1, 99},
		{ACCESS, W, 0, NULL, NULL, 0},
		{PD, 0, 0, other, NULL, 0},
		{PD | TRANSLATION | ACCESS, W, 0, pd, memory, page},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t key = mr->lkey;

		assert_int_equal(
			ibv_rereg_mr(mr, rows[i].flags, rows[i].pd, rows[i].address, rows[i].length, rows[i].access),
			rows[i].result);
		if (rows[i].result == 0 && (rows[i].flags & TRANSLATION)) {
			assert_ptr_equal(mr->addr, rows[i].address);
			assert_int_equal(mr->length, rows[i].length);
		}
		if (rows[i].result)
			assert_int_equal(mr->lkey, key); /* as it was */
		if (rows[i].pd == other) {
			assert_ptr_equal(mr->pd, other);
			assert_int_equal(ibv_dealloc_pd(other), EBUSY);
		}
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

static void a_region_that_moves_gets_another_key(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 8, W);

	for (int i = 0; i < 2000; i++) {
		uint32_t key = mr->rkey;

		assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory + !(i % 2), 8, W), 0);
		assert_true(mr->rkey != key);
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static bool is_in_arena(const char *address)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	char line[512];
	bool found = false;

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= (uintptr_t)address &&
		    (uintptr_t)address < end)
			found = strstr(line, "memfd:uroce") != NULL;
	if (maps)
		fclose(maps);
	return found;
}

/* A process that opens the device and registers memory before the helper thread has had a processor. */
static bool moves_in_a_new_process(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		char *own = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		const struct ibv_qp_cap cap = {1, 1, 1, 1};
		struct ibv_qp *qp;
		cpu_set_t one;

		CPU_ZERO(&one);
		CPU_SET(sched_getcpu(), &one);
		sched_setaffinity(0, sizeof(one), &one);
		if (open_context(NULL) || !(pd = ibv_alloc_pd(context)))
			_exit(2);
		qp = make_qp(pd, ibv_create_cq(context, 1, NULL, NULL, 0), &cap);
		bring(qp, qp, IBV_QPS_RTR); /* this starts the thread */
		if (!ibv_reg_mr(pd, own, page, W))
			_exit(3);
		_exit(is_in_arena(own) ? 0 : 1);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void memory_moves_from_the_first_moment_on(void **state)
{
	if (!MOVES)
		return;
	for (int i = 0; i < 10; i++)
		assert_true(moves_in_a_new_process());
}

static void handles_that_are_not_there(void **state)
{
	assert_errno(ibv_reg_mr(NULL, memory, 1, 0), EINVAL);
	assert_int_equal(ibv_dereg_mr(NULL), EINVAL);
	assert_int_equal(ibv_dealloc_pd(NULL), EINVAL);
	assert_errno(ibv_alloc_pd(NULL), EINVAL);
}

static void what_is_gone_is_not_found(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 1, 0);

	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dereg_mr(mr), ENOENT);
}

#ifdef __x86_64__
static const uint8_t returns_42[] = {0xb8, 42, 0, 0, 0, 0xc3}; /* mov $42, %eax; ret */
#else
static const uint32_t returns_42[] = {0x52800540, 0xd65f03c0}; /* mov w0, #42; ret */
#endif

/* UCX rewrites the C library's function to hear of memory that goes, and tries whether a call gets there. */
static void madvise_calls_the_next_library(void **state)
{
	void *next = dlsym(RTLD_NEXT, "madvise");
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *at = (char *)((uintptr_t)next & ~(page - 1));
	uint8_t before[sizeof(returns_42)];
	int result;

	assert_ptr_not_equal(next, (void *)madvise);
	assert_int_equal(mprotect(at, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	memcpy(before, next, sizeof(before));
	memcpy(next, returns_42, sizeof(returns_42));
	__builtin___clear_cache(next, (char *)next + sizeof(returns_42));
	result = madvise(NULL, 0, MADV_NORMAL);
	memcpy(next, before, sizeof(before));
	__builtin___clear_cache(next, (char *)next + sizeof(before));
	assert_int_equal(mprotect(at, 2 * page, PROT_READ | PROT_EXEC), 0);
	assert_int_equal(result, 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(access_flags_are_checked),
		cmocka_unit_test(memory_must_be_there),
		cmocka_unit_test(regions_may_overlap),
		cmocka_unit_test(a_huge_region_touches_no_page),
		cmocka_unit_test(reregistering_tells_what_went_wrong),
		cmocka_unit_test(a_region_that_moves_gets_another_key),
		cmocka_unit_test(memory_moves_from_the_first_moment_on),
		cmocka_unit_test(handles_that_are_not_there),
		cmocka_unit_test(what_is_gone_is_not_found),
		cmocka_unit_test(madvise_calls_the_next_library),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
