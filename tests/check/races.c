// SPDX-License-Identifier: BSD-2-Clause
/* Requests of two queue pairs that access the same bytes (--only races). */
#include "pair.h"
#include "rows.h"

#include <string.h>

/* By the second pair, to or from the memory of the first. */
static void post_second(struct two *t, enum ibv_wr_opcode opcode)
{
	post(&t->c, opcode, piece(&t->c, 0, 64), &t->p.b, IBV_SEND_SIGNALED);
}

static void writes_overlap(bool wrong)
{
	struct two t;

	two_open(&t);
	post(&t.p.a, IBV_WR_RDMA_WRITE, piece(&t.p.a, 0, 64), &t.p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&t.p.a);
	post_second(&t, IBV_WR_RDMA_WRITE);
	await(&t.c);
	if (wrong)
		await(&t.p.a);
	two_close(&t);
}

static void write_is_read_back(bool wrong)
{
	struct two t;

	two_open(&t);
	post(&t.p.a, IBV_WR_RDMA_WRITE, piece(&t.p.a, 0, 64), &t.p.b, 0);
	post(&t.p.a, IBV_WR_RDMA_WRITE, piece(&t.p.a, 0, 64), &t.p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&t.p.a); /* that of both */
	post_second(&t, IBV_WR_RDMA_READ);
	await(&t.c);
	if (wrong)
		await(&t.p.a);
	two_close(&t);
}

/* Two that read are no race. */
static void read_is_overwritten(bool wrong)
{
	struct two t;

	two_open(&t);
	post(&t.p.a, IBV_WR_RDMA_READ, piece(&t.p.a, 0, 64), &t.p.b, IBV_SEND_SIGNALED);
	post_second(&t, wrong ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ);
	await(&t.c);
	await(&t.p.a);
	two_close(&t);
}

static void results_overlap(bool wrong)
{
	struct two t;

	two_open(&t);
	post(&t.p.a, IBV_WR_RDMA_READ, piece(&t.p.a, 0, 64), &t.p.b, IBV_SEND_SIGNALED);
	post(&t.c, IBV_WR_RDMA_READ, piece(&t.p.a, wrong ? 32 : 64, 64), &t.d, IBV_SEND_SIGNALED);
	await(&t.c);
	await(&t.p.a);
	two_close(&t);
}

static void result_is_sent_by_another(bool wrong)
{
	struct two t;

	two_open(&t);
	receive(&t.d, piece(&t.d, 0, 64));
	post(&t.p.a, IBV_WR_RDMA_READ, piece(&t.p.a, 0, 64), &t.p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&t.p.a);
	post(&t.c, IBV_WR_SEND, piece(&t.p.a, 0, 64), &t.d, IBV_SEND_SIGNALED);
	await(&t.c);
	await(&t.d);
	if (wrong)
		await(&t.p.a);
	two_close(&t);
}

/* The completion is not polled: the message behind the WRITE says that it is done. */
static void message_orders_writes(bool wrong)
{
	struct two t;

	two_open(&t);
	receive(&t.p.b, piece(&t.p.b, 1024, 64));
	post(&t.p.a, IBV_WR_RDMA_WRITE, piece(&t.p.a, 0, 64), &t.p.b, 0);
	post(&t.p.a, IBV_WR_SEND, piece(&t.p.a, 0, 64), &t.p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&t.p.b);
	post_second(&t, IBV_WR_RDMA_WRITE);
	await(&t.c);
	if (wrong)
		await(&t.p.b);
	await(&t.p.a);
	two_close(&t);
}

/* The result of an atomic may be that which says that the WRITE is done: as of a lock. */
static void lock_orders_writes(bool wrong)
{
	struct two t;

	two_open(&t);
	post(&t.p.a, IBV_WR_RDMA_WRITE, piece(&t.p.a, 0, 64), &t.p.b, 0);
	post(&t.p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(&t.p.a, 512, 8), &t.d, 0);
	post(&t.c, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(&t.c, 512, 8), &t.d, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&t.c);
	post_second(&t, IBV_WR_RDMA_WRITE);
	await(&t.c);
	if (wrong)
		await(&t.c);
	post(&t.p.a, IBV_WR_RDMA_WRITE, piece(&t.p.a, 0, 8), &t.d, IBV_SEND_SIGNALED);
	await(&t.p.a);
	two_close(&t);
}

static bool thread_awaits;

static void *write_first(void *arg)
{
	struct two *t = arg;

	post(&t->p.a, IBV_WR_RDMA_WRITE, piece(&t->p.a, 0, 64), &t->p.b, IBV_SEND_SIGNALED);
	if (thread_awaits)
		await(&t->p.a);
	return NULL;
}

/* That one thread ends before the other begins says nothing of what it has posted. */
static void threads_write(bool wrong)
{
	pthread_t thread;
	struct two t;

	two_open(&t);
	thread_awaits = !wrong;
	ZERO(pthread_create(&thread, NULL, write_first, &t));
	ZERO(pthread_join(thread, NULL));
	post_second(&t, IBV_WR_RDMA_WRITE);
	await(&t.c);
	if (wrong)
		await(&t.p.a);
	two_close(&t);
}

/* A SEND of memory that a WRITE of another queue pair of this process goes to. */
static void sent_memory_is_a_target(bool wrong)
{
	struct two t;

	two_open(&t);
	receive(&t.p.a, piece(&t.p.a, 64, 64));
	post(&t.p.b, IBV_WR_SEND, piece(&t.p.b, 0, 64), &t.p.a, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&t.p.b);
	post_second(&t, IBV_WR_RDMA_WRITE);
	await(&t.c);
	if (wrong)
		await(&t.p.b);
	await(&t.p.a);
	two_close(&t);
}

/* Adapters order atomics with each other, and not with a WRITE. */
static void word_of_an_atomic_is_written(bool wrong)
{
	struct two t;

	two_open(&t);
	post(&t.p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(&t.p.a, 0, 8), &t.p.b, IBV_SEND_SIGNALED);
	post(&t.c, wrong ? IBV_WR_RDMA_WRITE : IBV_WR_ATOMIC_FETCH_AND_ADD, piece(&t.c, 0, 8), &t.p.b,
	     IBV_SEND_SIGNALED);
	await(&t.c);
	await(&t.p.a);
	two_close(&t);
}

const struct row race_rows[] = {
	{"word_of_an_atomic_is_written", word_of_an_atomic_is_written, "race", "post"},
	{"writes_overlap", writes_overlap, "race", "post"},
	{"write_is_read_back", write_is_read_back, "race", "post"},
	{"read_is_overwritten", read_is_overwritten, "race", "post"},
	{"results_overlap", results_overlap, "race", "post"},
	{"result_is_sent_by_another", result_is_sent_by_another, "race", "post"},
	{"message_orders_writes", message_orders_writes, "race", "post"},
	{"lock_orders_writes", lock_orders_writes, "race", "post"},
	{"threads_write", threads_write, "race", "post"},
	{"sent_memory_is_a_target", sent_memory_is_a_target, "race", "post"},
	{0},
};
