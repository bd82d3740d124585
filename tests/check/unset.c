// SPDX-License-Identifier: BSD-2-Clause
/* What MemorySanitizer of the program knows of, as uroce tells it which bytes come from elsewhere: bytes that are sent
 * and were never initialised, and bytes that are looked at before they are there. Other builds have no such rows. */
#include "pair.h"
#include "rows.h"

#ifdef __has_feature
#if __has_feature(memory_sanitizer)
#define HAS_MSAN
#endif
#endif

#ifdef HAS_MSAN
/* Memory that malloc() has given, registered. */
struct fresh {
	struct pair p;
	struct end from; /* of it only the memory and the region are used */
};

static void fresh_open(struct fresh *f, struct want w)
{
	pair_open(&f->p, w);
	f->from = (struct end){0};
	MUST(f->from.memory = malloc(SIZE));
	MUST(f->from.mr = ibv_reg_mr(f->p.pd, f->from.memory, SIZE, ALL));
}

static void fresh_close(struct fresh *f)
{
	end_close(&f->from);
	pair_close(&f->p);
}

struct message {
	char kind; /* the three bytes behind it are nobody's */
	int number;
};

static void message_has_a_gap(bool wrong)
{
	struct message *m;
	struct fresh f;

	fresh_open(&f, (struct want){0});
	m = (struct message *)f.from.memory;
	if (!wrong)
		memset(m, 0, sizeof(*m));
	m->kind = 1;
	m->number = 2;
	receive(&f.p.b, piece(&f.p.b, 0, 64));
	post(&f.p.a, IBV_WR_SEND, piece(&f.from, 0, sizeof(*m)), &f.p.b, IBV_SEND_SIGNALED);
	await(&f.p.a);
	await(&f.p.b);
	fresh_close(&f);
}

static void more_is_written_than_there_is(bool wrong)
{
	struct fresh f;

	fresh_open(&f, (struct want){0});
	memset(f.from.memory, 7, 100);
	post(&f.p.a, IBV_WR_RDMA_WRITE, piece(&f.from, 0, wrong ? 101 : 100), &f.p.b, IBV_SEND_SIGNALED);
	await(&f.p.a);
	fresh_close(&f);
}

static void inline_is_not_filled(bool wrong)
{
	struct fresh f;

	fresh_open(&f, (struct want){0});
	memset(f.from.memory, 7, wrong ? 15 : 16);
	post(&f.p.a, IBV_WR_RDMA_WRITE, piece(&f.from, 0, 16), &f.p.b, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	await(&f.p.a);
	fresh_close(&f);
}

static void second_piece_is_not_filled(bool wrong)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 2, .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct fresh f;

	fresh_open(&f, (struct want){0});
	sge[0] = piece(&f.p.a, 0, 64);
	sge[1] = piece(&f.from, 64, 8);
	if (!wrong)
		memset(f.from.memory + 64, 7, 8);
	receive(&f.p.b, piece(&f.p.b, 0, 128));
	ZERO(ibv_post_send(f.p.a.qp, &wr, &bad));
	await(&f.p.a);
	await(&f.p.b);
	fresh_close(&f);
}

static void immediate_is_not_set(bool wrong)
{
	struct ibv_send_wr wr, *bad;
	struct pair p;

	pair_open(&p, (struct want){0});
	memset(&wr, 0, offsetof(struct ibv_send_wr, imm_data));
	memset(&wr.wr, 0, sizeof(wr.wr));
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.send_flags = IBV_SEND_SIGNALED;
	if (!wrong)
		wr.imm_data = 7;
	receive(&p.b, piece(&p.b, 0, 64));
	ZERO(ibv_post_send(p.a.qp, &wr, &bad));
	await(&p.a);
	await(&p.b);
	pair_close(&p);
}

static void operand_is_not_set(bool wrong)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad;
	struct pair p;

	pair_open(&p, (struct want){0});
	sge = piece(&p.a, 0, 8);
	memset(&wr, 0, offsetof(struct ibv_send_wr, wr));
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.atomic.remote_addr = (uintptr_t)p.b.memory;
	wr.wr.atomic.rkey = p.b.mr->rkey;
	if (!wrong)
		wr.wr.atomic.compare_add = 7;
	ZERO(ibv_post_send(p.a.qp, &wr, &bad));
	await(&p.a);
	pair_close(&p);
}

/* The peer gets what the program has not filled, without any call of the program. */
static void peer_reads_too_much(bool wrong)
{
	struct fresh f;

	fresh_open(&f, (struct want){0});
	memset(f.from.memory, 7, wrong ? 63 : 64);
	post(&f.p.a, IBV_WR_RDMA_READ, piece(&f.p.a, 0, 64), &f.from, IBV_SEND_SIGNALED);
	await(&f.p.a);
	fresh_close(&f);
}

/* The region is of other memory than when it was registered. */
static void peer_reads_what_it_is_now(bool wrong)
{
	struct fresh f;
	char *other;

	fresh_open(&f, (struct want){0});
	MUST(other = malloc(SIZE));
	memset(f.from.memory, 7, SIZE);
	if (!wrong)
		memset(other, 7, 64);
	ZERO(ibv_rereg_mr(f.from.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, SIZE, 0));
	free(f.from.memory);
	f.from.memory = other;
	post(&f.p.a, IBV_WR_RDMA_READ, piece(&f.p.a, 0, 64), &f.from, IBV_SEND_SIGNALED);
	await(&f.p.a);
	fresh_close(&f);
}

/* What a message has brought may be sent on, and no more. */
static void message_is_sent_on(bool wrong)
{
	struct fresh f;

	fresh_open(&f, (struct want){0});
	receive(&f.p.b, piece(&f.from, 0, 1000));
	post(&f.p.a, IBV_WR_SEND, piece(&f.p.a, 0, 500), &f.p.b, IBV_SEND_SIGNALED);
	await(&f.p.a);
	await(&f.p.b);
	receive(&f.p.a, piece(&f.p.a, 0, 1000));
	post(&f.p.b, IBV_WR_SEND, piece(&f.from, 0, wrong ? 501 : 500), &f.p.a, IBV_SEND_SIGNALED);
	await(&f.p.b);
	await(&f.p.a);
	fresh_close(&f);
}

/* What a peer has written is there, and nothing tells. */
static void writes_are_sent_on(bool wrong)
{
	struct fresh f;

	fresh_open(&f, (struct want){0});
	post(&f.p.a, IBV_WR_RDMA_WRITE, piece(&f.p.a, 0, 3000), &f.from, IBV_SEND_SIGNALED);
	await(&f.p.a);
	post(&f.p.b, IBV_WR_RDMA_WRITE, piece(&f.from, wrong, 3000), &f.p.a, IBV_SEND_SIGNALED);
	await(&f.p.b);
	fresh_close(&f);
}

/* By the extended functions, which copy what is inline. */
static void extended_inline_is_not_filled(bool wrong)
{
	struct ibv_qp_ex *qp;
	struct fresh f;

	fresh_open(&f, (struct want){.extends = true});
	memset(f.from.memory, 7, wrong ? 7 : 8);
	MUST(qp = ibv_qp_to_qp_ex(f.p.a.qp));
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, f.p.b.mr->rkey, (uintptr_t)f.p.b.memory);
	ibv_wr_set_inline_data(qp, f.from.memory, 8);
	ZERO(ibv_wr_complete(qp));
	await(&f.p.a);
	fresh_close(&f);
}

/* ---- looked at too early ---- */

static void result_is_looked_at_early(bool wrong)
{
	struct fresh f;

	fresh_open(&f, (struct want){0});
	post(&f.p.a, IBV_WR_RDMA_READ, piece(&f.from, 0, 64), &f.p.b, IBV_SEND_SIGNALED);
	if (wrong && f.from.memory[3])
		puts("early");
	await(&f.p.a);
	if (f.from.memory[3])
		puts("late");
	fresh_close(&f);
}

static void result_of_an_atomic_is_looked_at_early(bool wrong)
{
	struct fresh f;

	fresh_open(&f, (struct want){0});
	post(&f.p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(&f.from, 0, 8), &f.p.b, IBV_SEND_SIGNALED);
	if (wrong && f.from.memory[3])
		puts("early");
	await(&f.p.a);
	if (f.from.memory[3])
		puts("late");
	fresh_close(&f);
}

static void behind_the_end_of_a_message(bool wrong)
{
	struct fresh f;
	struct ibv_wc wc;

	fresh_open(&f, (struct want){0});
	receive(&f.p.b, piece(&f.from, 0, 64));
	post(&f.p.a, IBV_WR_SEND, piece(&f.p.a, 0, 10), &f.p.b, IBV_SEND_SIGNALED);
	await(&f.p.a);
	wc = await(&f.p.b);
	if (f.from.memory[wc.byte_len - !wrong])
		puts("behind");
	fresh_close(&f);
}

/* Of a completion with an error, few fields are defined. */
static void opcode_of_a_failure(bool wrong)
{
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, (struct want){0});
	sge = piece(&p.a, 0, 64);
	sge.lkey++; /* unknown */
	post(&p.a, IBV_WR_RDMA_WRITE, sge, &p.b, IBV_SEND_SIGNALED);
	wc = await(&p.a);
	if (wrong ? wc.opcode == IBV_WC_RDMA_WRITE : wc.status == IBV_WC_SUCCESS)
		puts("written");
	pair_close(&p);
}
#endif

const struct row unset_rows[] = {
#ifdef HAS_MSAN
	{"message_has_a_gap", message_has_a_gap, "uninitialized-sent", "post"},
	{"more_is_written_than_there_is", more_is_written_than_there_is, "uninitialized-sent", "post"},
	{"inline_is_not_filled", inline_is_not_filled, "uninitialized-sent", "post"},
	{"second_piece_is_not_filled", second_piece_is_not_filled, "uninitialized-sent", "second_piece_is_not_filled"},
	{"immediate_is_not_set", immediate_is_not_set, "uninitialized-sent", "immediate_is_not_set"},
	{"operand_is_not_set", operand_is_not_set, "uninitialized-sent", "operand_is_not_set"},
	{"peer_reads_too_much", peer_reads_too_much, "uninitialized-sent", "fresh_open"},
	{"peer_reads_what_it_is_now", peer_reads_what_it_is_now, "uninitialized-sent", "peer_reads_what_it_is_now"},
	{"message_is_sent_on", message_is_sent_on, "uninitialized-sent", "post"},
	{"writes_are_sent_on", writes_are_sent_on, "uninitialized-sent", "post"},
	{"extended_inline_is_not_filled", extended_inline_is_not_filled, "uninitialized-sent",
	 "extended_inline_is_not_filled"},
	{"result_is_looked_at_early", result_is_looked_at_early, "use-of-uninitialized-value",
	 "result_is_looked_at_early"},
	{"result_of_an_atomic_is_looked_at_early", result_of_an_atomic_is_looked_at_early, "use-of-uninitialized-value",
	 "result_of_an_atomic_is_looked_at_early"},
	{"behind_the_end_of_a_message", behind_the_end_of_a_message, "use-of-uninitialized-value",
	 "behind_the_end_of_a_message"},
	{"opcode_of_a_failure", opcode_of_a_failure, "use-of-uninitialized-value", "opcode_of_a_failure"},
#endif
	{0},
};
