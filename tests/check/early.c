// SPDX-License-Identifier: BSD-2-Clause
/* What AddressSanitizer of the program sees, or memcheck, as uroce tells them which memory is the adapter's. Without
 * them some of it is not found, so only builds with AddressSanitizer list these rows. */
#include "pair.h"
#include "rows.h"

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define HAS_ASAN
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define HAS_ASAN
#endif

#ifdef HAS_ASAN
const bool lists_early_rows = true;
#else
const bool lists_early_rows = false;
#endif

static volatile char seen;

static void receive_is_read(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 64));
	if (wrong)
		seen = p.b.memory[7];
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	await(&p.b);
	seen = p.b.memory[7];
	pair_close(&p);
}

static void message_is_read_early(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 64));
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	if (wrong)
		seen = p.b.memory[7];
	await(&p.b);
	seen = p.b.memory[7];
	pair_close(&p);
}

static void read_is_read_early(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_RDMA_READ, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	if (wrong)
		seen = p.a.memory[7];
	await(&p.a);
	seen = p.a.memory[7];
	pair_close(&p);
}

static void shared_receive_is_written_early(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.shares = true});
	receive(&p.b, piece(&p.b, 0, 64));
	if (wrong)
		p.b.memory[7] = 1;
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	await(&p.b);
	p.b.memory[7] = 2;
	pair_close(&p);
}

/* A region of whole pages allows it. */
static void more_than_there_is(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;
	char *text;

	pair_open(&p, (struct want){0});
	MUST(text = calloc(1, 100));
	MUST(mr = ibv_reg_mr(p.pd, text, 100, ALL));
	post(&p.a, IBV_WR_RDMA_WRITE,
	     (struct ibv_sge){.addr = (uintptr_t)text, .length = wrong ? 104 : 100, .lkey = mr->lkey}, &p.b,
	     IBV_SEND_SIGNALED);
	await(&p.a);
	ZERO(ibv_dereg_mr(mr));
	free(text);
	pair_close(&p);
}

static void freed_is_sent(bool wrong)
{
	struct ibv_sge sge = {.length = 64};
	struct ibv_mr *mr;
	struct pair p;
	char *text;

	pair_open(&p, (struct want){0});
	MUST(text = calloc(1, 64));
	MUST(mr = ibv_reg_mr(p.pd, text, 64, ALL));
	sge.addr = (uintptr_t)text;
	sge.lkey = mr->lkey;
	if (wrong)
		free(text);
	post(&p.a, IBV_WR_RDMA_WRITE, sge, &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	ZERO(ibv_dereg_mr(mr));
	if (!wrong)
		free(text);
	pair_close(&p);
}
const struct row early_rows[] = {
	{"receive_is_read", receive_is_read, "touched-in-flight", "receive"},
	{"message_is_read_early", message_is_read_early, "touched-in-flight", "receive"},
	{"read_is_read_early", read_is_read_early, "touched-in-flight", "post"},
	{"shared_receive_is_written_early", shared_receive_is_written_early, "touched-in-flight", "receive"},
	{"more_than_there_is", more_than_there_is, "outside-object", "post"},
	{"freed_is_sent", freed_is_sent, "outside-object", "post"},
	{0},
};
