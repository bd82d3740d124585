// SPDX-License-Identifier: BSD-2-Clause
/* regions: what registering memory costs. Prints "name value" lines, us: for some sizes of memory that is in use, the
 * medians of ibv_reg_mr(), of ibv_dereg_mr(), and of mlock(), which is the least that an adapter needs that reads
 * physical memory; and of a region of 1 TiB of which nothing is in use, and of each of many regions at a time. With an
 * argument only that size (4KiB) is measured. Plain libibverbs. */
#include <string.h>
#include <sys/mman.h>

#include "plain.h"

enum { ROUNDS = 51, MANY = 1000000, PAGE = 4096 };

static const struct {
	const char *name;
	size_t bytes;
} sizes[] = {{"4KiB", 4096}, {"64KiB", 65536}, {"1MiB", 1 << 20}, {"1GiB", 1 << 30}};

static struct plain plain;

static double now(void)
{
	return (double)now_ns() / 1e3;
}

static char *map(size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	need(at != MAP_FAILED, "mmap");
	return at;
}

static struct ibv_mr *register_it(char *at, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(plain.pd, at, bytes,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);

	need(mr, "ibv_reg_mr");
	return mr;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double sample[ROUNDS])
{
	qsort(sample, ROUNDS, sizeof(*sample), compare);
	return sample[ROUNDS / 2];
}

static void measure(const char *name, size_t bytes)
{
	static double made[ROUNDS], gone[ROUNDS], locked[ROUNDS];
	char *at = map(bytes);
	bool can_lock = true;

	memset(at, 1, bytes);
	for (int i = 0; i < ROUNDS; i++) {
		double begin = now(), end;
		struct ibv_mr *mr = register_it(at, bytes);

		end = now();
		made[i] = end - begin;
		need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
		gone[i] = now() - end;
		begin = now();
		can_lock &= !mlock(at, bytes);
		locked[i] = now() - begin;
		munlock(at, bytes);
	}
	munmap(at, bytes);
	printf("register_%s %.2f\nderegister_%s %.2f\n", name, median(made), name, median(gone));
	if (can_lock) /* ulimit -l */
		printf("mlock_%s %.2f\n", name, median(locked));
}

static void measure_large(void)
{
	size_t bytes = 1ull << 40;
	char *at = map(bytes);
	double begin = now();
	struct ibv_mr *mr = register_it(at, bytes);

	printf("register_1TiB %.2f\n", now() - begin);
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	munmap(at, bytes);
}

static void measure_many(void)
{
	struct ibv_mr **mr = calloc(MANY, sizeof(*mr));
	char *at = map(256 * PAGE);
	double begin;

	need(mr, "calloc");
	memset(at, 1, 256 * PAGE);
	begin = now();
	for (int i = 0; i < MANY; i++)
		mr[i] = register_it(at + i % 256 * PAGE, PAGE);
	printf("register_many %.2f\n", (now() - begin) / MANY);
	begin = now();
	for (int i = 0; i < MANY; i++)
		need(!ibv_dereg_mr(mr[i]), "ibv_dereg_mr");
	printf("deregister_many %.2f\n", (now() - begin) / MANY);
	free(mr);
}

int main(int argc, char **argv)
{
	static char memory[PAGE];

	plain = plain_open(1, memory, sizeof(memory));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (argc < 2 || !strcmp(argv[1], sizes[i].name))
			measure(sizes[i].name, sizes[i].bytes);
	if (argc > 1)
		return 0;
	measure_large();
	measure_many();
	return 0;
}
