// SPDX-License-Identifier: BSD-2-Clause
/* Memory that is used again too early: what programs do without a thought. */
#include "pair.h"
#include "rows.h"

/* The completion of the first request is taken for that of both. */
static void one_completion_for_two(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	for (uint32_t i = 0; i < 2; i++)
		post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 64 * i, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	if (!wrong)
		await(&p.a);
	memset(p.a.memory, 1, 128);
	if (wrong)
		await(&p.a);
	pair_close(&p);
}

/* Two messages by way of one buffer. */
static void bounce_buffer(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	for (int i = 0; i < 2; i++) {
		memset(p.a.memory, i + 1, 64);
		post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
		if (!wrong)
			await(&p.a);
	}
	for (int i = 0; wrong && i < 2; i++)
		await(&p.a);
	pair_close(&p);
}

/* A receive is posted again before its message was dealt with. */
static void posted_again_before_it_was_read(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 64));
	for (int i = 0; i < 2; i++) {
		post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
		await(&p.a);
		await(&p.b);
		if (i == 0 && wrong)
			receive(&p.b, piece(&p.b, 0, 64));
		memset(p.b.memory, 0xee, 64); /* it is dealt with */
		if (i == 0 && !wrong)
			receive(&p.b, piece(&p.b, 0, 64));
	}
	pair_close(&p);
}

static void __attribute__((noinline)) send_a_local(struct pair *p, struct ibv_mr **mr, bool waits)
{
	char text[64] = "a message on the stack";
	struct ibv_sge sge = {.addr = (uintptr_t)text, .length = sizeof(text)};

	MUST(*mr = ibv_reg_mr(p->pd, text, sizeof(text), 0));
	sge.lkey = (*mr)->lkey;
	post(&p->a, IBV_WR_RDMA_WRITE, sge, &p->b, IBV_SEND_SIGNALED);
	if (waits)
		await(&p->a);
}

static void __attribute__((noinline)) use_the_stack(void)
{
	volatile char other[4096];

	for (size_t i = 0; i < sizeof(other); i++)
		other[i] = 1;
}

/* The function that has posted returns, and its locals with it. */
static void locals_are_sent(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p, (struct want){0});
	send_a_local(&p, &mr, !wrong);
	use_the_stack();
	if (wrong)
		await(&p.a);
	ZERO(ibv_dereg_mr(mr));
	pair_close(&p);
}

static void *fill(void *memory)
{
	memset(memory, 1, 64);
	return NULL;
}

/* One thread prepares the next message while another waits for the last. */
static void another_thread_fills(bool wrong)
{
	pthread_t thread;
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	ZERO(pthread_create(&thread, NULL, fill, p.a.memory + (wrong ? 0 : 64)));
	ZERO(pthread_join(thread, NULL));
	await(&p.a);
	pair_close(&p);
}

/* Of a long message one byte in the middle. */
static void middle_of_a_long_message(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, SIZE), &p.b, IBV_SEND_SIGNALED);
	if (wrong)
		p.a.memory[SIZE / 2] = 1;
	await(&p.a);
	pair_close(&p);
}

/* The header is filled in when the payload has been posted already. */
static void header_comes_late(bool wrong)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = {.wr_id = 7,
				 .opcode = IBV_WR_SEND,
				 .sg_list = sge,
				 .num_sge = 2,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 1000));
	sge[0] = piece(&p.a, 0, 16);
	sge[1] = piece(&p.a, 512, 64);
	if (!wrong)
		memcpy(p.a.memory, "length: 64", 10);
	ZERO(ibv_post_send(p.a.qp, &wr, &bad));
	if (wrong)
		memcpy(p.a.memory, "length: 64", 10);
	await(&p.a);
	await(&p.b);
	pair_close(&p);
}

/* The peer has answered, so it has the request; the adapter may send it again nevertheless. */
static void answer_comes_first(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.a, piece(&p.a, 128, 64));
	receive(&p.b, piece(&p.b, 0, 64));
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, 0);
	await(&p.b);
	post(&p.b, IBV_WR_SEND, piece(&p.b, 128, 64), &p.a, IBV_SEND_SIGNALED);
	await(&p.b);
	MUST(await(&p.a).opcode == IBV_WC_RECV);
	if (wrong)
		memset(p.a.memory, 1, 64);
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 64, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	memset(p.a.memory, 2, 64);
	pair_close(&p);
}

/* One function posts for two others, at the same depth of the stack: each has its own. */
static void __attribute__((noinline)) post_for_another(struct pair *p, uint32_t at)
{
	post(&p->a, IBV_WR_RDMA_WRITE, piece(&p->a, at, 64), &p->b, IBV_SEND_SIGNALED);
}

static void __attribute__((noinline)) first_caller(struct pair *p)
{
	post_for_another(p, 0);
	await(&p->a);
}

static void __attribute__((noinline)) second_caller(struct pair *p, bool wrong)
{
	post_for_another(p, 64);
	p->a.memory[64] = wrong;
	await(&p->a);
}

static void second_caller_changes(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	first_caller(&p);
	second_caller(&p, wrong);
	pair_close(&p);
}

const struct row reuse_rows[] = {
	{"answer_comes_first", answer_comes_first, "changed-in-flight", "post"},
	{"second_caller_changes", second_caller_changes, "changed-in-flight", "post"},
	{"one_completion_for_two", one_completion_for_two, "changed-in-flight", "post"},
	{"bounce_buffer", bounce_buffer, "changed-in-flight", "post"},
	{"posted_again_before_it_was_read", posted_again_before_it_was_read, "written-in-flight", "receive"},
	{"locals_are_sent", locals_are_sent, "changed-in-flight", "post"},
	{"another_thread_fills", another_thread_fills, "changed-in-flight", "post"},
	{"middle_of_a_long_message", middle_of_a_long_message, "changed-in-flight", "post"},
	{"header_comes_late", header_comes_late, "changed-in-flight", "header_comes_late"},
	{0},
};
