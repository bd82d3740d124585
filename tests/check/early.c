// SPDX-License-Identifier: BSD-2-Clause
/* What AddressSanitizer of the program sees, or memcheck, as uroce tells them which memory is the adapter's: only
 * builds with it list those rows. And what breakpoints see, where the kernel has them. */
#include "pair.h"
#include "rows.h"

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GRH = sizeof(struct ibv_grh) };

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

/* Two of a list; the completion of the second is that of both. */
static void first_of_two_is_read(bool wrong)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wr[2], *bad;
	struct pair p;

	pair_open(&p, (struct want){0});
	for (int i = 0; i < 2; i++) {
		sge[i] = piece(&p.a, 64 * (uint32_t)i, 64);
		wr[i] = (struct ibv_send_wr){.next = i ? NULL : &wr[1],
					     .sg_list = &sge[i],
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_READ,
					     .send_flags = i ? IBV_SEND_SIGNALED : 0,
					     .wr.rdma = {(uintptr_t)p.b.memory, p.b.mr->rkey}};
	}
	ZERO(ibv_post_send(p.a.qp, wr, &bad));
	if (wrong)
		seen = p.a.memory[0];
	await(&p.a);
	seen = p.a.memory[0];
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

/* By its flag, of 5 bytes behind a multiple of 8. Nothing comes into the receive of immediate data. */
static void last_byte_is_read(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 61));
	p.a.memory[60] = 1;
	post(&p.a, wrong ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM, piece(&p.a, 0, 61), &p.b,
	     IBV_SEND_SIGNALED);
	await(&p.a);
	seen = p.b.memory[60];
	await(&p.b);
	pair_close(&p);
}

#ifndef HAS_ASAN
/* By a thread that was there before the post. */
static struct reader {
	pthread_barrier_t turn;
	const char *at;
} reader;

static void *read_in_turn(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&reader.turn);
	seen = *reader.at;
	pthread_barrier_wait(&reader.turn);
	return NULL;
}

static void other_thread_reads(bool wrong)
{
	pthread_t thread;
	struct pair p;

	ZERO(pthread_barrier_init(&reader.turn, NULL, 2));
	ZERO(pthread_create(&thread, NULL, read_in_turn, NULL));
	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_RDMA_READ, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	reader.at = p.a.memory;
	if (!wrong)
		await(&p.a);
	pthread_barrier_wait(&reader.turn);
	pthread_barrier_wait(&reader.turn);
	if (wrong)
		await(&p.a);
	ZERO(pthread_join(thread, NULL));
	pair_close(&p);
}

/* Behind the end of the message, memory is the program's. */
static void rest_of_receive_is_read(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 64));
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, wrong ? 64 : 32), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	seen = p.b.memory[63];
	await(&p.b);
	pair_close(&p);
}

/* Other requests have the memory as well: it is not the one receive's. */
static void one_receive_is_read(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 64));
	if (!wrong)
		receive(&p.b, piece(&p.b, 0, 64));
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	seen = p.b.memory[0];
	await(&p.b);
	pair_close(&p);
}

#endif

/* A program may look at the GRH, but one that looks at the payload does not stop there. */
static void payload_is_sought_at_0(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.type = IBV_QPT_UD});
	receive(&p.b, piece(&p.b, 0, GRH + 64));
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	await(&p.b);
	seen = p.b.memory[0];
	if (!wrong)
		seen = p.b.memory[GRH];
	pair_close(&p);
}

static void payload_is_compared_at_0(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.type = IBV_QPT_UD});
	receive(&p.b, piece(&p.b, 0, GRH + 64));
	strcpy(p.a.memory, "a message");
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	await(&p.b);
	seen = (char)strcmp(p.b.memory + (wrong ? 0 : GRH), p.a.memory);
	pair_close(&p);
}

bool lists_watch_rows(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_BREAKPOINT,
				       .size = sizeof(attr),
				       .exclude_kernel = true,
				       .exclude_hv = true,
				       .bp_type = HW_BREAKPOINT_RW,
				       .bp_addr = (uintptr_t)&seen,
				       .bp_len = 1};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

#ifndef __x86_64__
	return false;
#endif
	return fd >= 0 && !close(fd);
}

const struct row watch_rows[] = {
#ifndef HAS_ASAN /* which stops the program there */
	{"receive_is_read", receive_is_read, "touched-in-flight", "receive_is_read"},
	{"message_is_read_early", message_is_read_early, "touched-in-flight", "message_is_read_early"},
	{"read_is_read_early", read_is_read_early, "touched-in-flight", "read_is_read_early"},
	{"first_of_two_is_read", first_of_two_is_read, "touched-in-flight", "first_of_two_is_read"},
	{"rest_of_receive_is_read", rest_of_receive_is_read, "touched-in-flight", "rest_of_receive_is_read"},
	{"one_receive_is_read", one_receive_is_read, "touched-in-flight", "one_receive_is_read"},
	{"other_thread_reads", other_thread_reads, "touched-in-flight", "read_in_turn"},
#endif
	{"last_byte_is_read", last_byte_is_read, "touched-in-flight", "last_byte_is_read"},
	{"payload_is_sought_at_0", payload_is_sought_at_0, "grh-as-payload", "payload_is_sought_at_0"},
	{"payload_is_compared_at_0", payload_is_compared_at_0, "grh-as-payload", "payload_is_compared_at_0"},
	{0},
};

const struct row early_rows[] = {
	{"receive_is_read", receive_is_read, "touched-in-flight", "receive"},
	{"message_is_read_early", message_is_read_early, "touched-in-flight", "receive"},
	{"read_is_read_early", read_is_read_early, "touched-in-flight", "post"},
	{"first_of_two_is_read", first_of_two_is_read, "touched-in-flight", "first_of_two_is_read"},
	{"shared_receive_is_written_early", shared_receive_is_written_early, "touched-in-flight", "receive"},
	{"more_than_there_is", more_than_there_is, "outside-object", "post"},
	{"freed_is_sent", freed_is_sent, "outside-object", "post"},
	{0},
};
