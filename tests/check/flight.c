// SPDX-License-Identifier: BSD-2-Clause
/* What is used, changed or destroyed while requests are outstanding. */
#include "pair.h"
#include "rows.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GRH = 40 };

/* ---- what a READ brings ---- */

/* Inline bytes are taken at the post, so a fence is of no use. */
static void read_is_sent_inline(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 64, 64));
	memset(p.b.memory, 7, 64);
	post(&p.a, IBV_WR_RDMA_READ, piece(&p.a, 0, 32), &p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&p.a);
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 32), &p.b, IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_FENCE);
	await(&p.a);
	if (wrong)
		await(&p.a);
	await(&p.b);
	pair_close(&p);
}

/* By ibv_wr_start(): the bytes are copied before the batch is posted. */
static void read_is_sent_inline_in_a_batch(bool wrong)
{
	struct ibv_qp_ex *qp;
	struct pair p;

	pair_open(&p, (struct want){.extends = true});
	MUST(qp = ibv_qp_to_qp_ex(p.a.qp));
	post(&p.a, IBV_WR_RDMA_READ, piece(&p.a, 0, 32), &p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&p.a);
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, p.b.mr->rkey, (uintptr_t)p.b.memory + 64);
	ibv_wr_set_inline_data(qp, p.a.memory, 32);
	ZERO(ibv_wr_complete(qp));
	await(&p.a);
	if (wrong)
		await(&p.a);
	pair_close(&p);
}

/* A fence is for one queue pair. */
static void read_is_written_by_another(bool wrong)
{
	struct two t;

	two_open(&t);
	post(&t.p.a, IBV_WR_RDMA_READ, piece(&t.p.a, 0, 64), &t.p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&t.p.a);
	post(&t.c, IBV_WR_RDMA_WRITE, piece(&t.p.a, 0, 64), &t.d, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
	await(&t.c);
	if (wrong)
		await(&t.p.a);
	two_close(&t);
}

static void atomic_is_sent_inline(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(&p.a, 0, 8), &p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&p.a);
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 8), &p.b, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	await(&p.a);
	if (wrong)
		await(&p.a);
	pair_close(&p);
}

/* ---- what is destroyed ---- */

static void send_datagram(struct pair *p)
{
	receive(&p->b, piece(&p->b, 0, GRH + 64));
	post(&p->a, IBV_WR_SEND, piece(&p->a, 0, 64), &p->b, IBV_SEND_SIGNALED);
}

static void address_handle_goes_first(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.type = IBV_QPT_UD});
	send_datagram(&p);
	if (!wrong)
		await(&p.a);
	ZERO(ibv_destroy_ah(p.a.ah));
	p.a.ah = NULL;
	if (wrong)
		await(&p.a);
	await(&p.b);
	pair_close(&p);
}

static void address_handle_is_gone(bool wrong)
{
	struct ibv_ah *ah;
	struct pair p;

	pair_open(&p, (struct want){.type = IBV_QPT_UD});
	send_datagram(&p);
	await(&p.a);
	await(&p.b);
	ah = p.a.ah;
	if (wrong)
		ZERO(ibv_destroy_ah(ah));
	send_datagram(&p);
	await(&p.a);
	if (!wrong)
		ZERO(ibv_destroy_ah(ah));
	p.a.ah = NULL;
	await(&p.b);
	pair_close(&p);
}

static void reset_with_a_write_outstanding(bool wrong)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&p.a);
	ZERO(ibv_modify_qp(p.a.qp, &reset, IBV_QP_STATE));
	pair_close(&p);
}

struct poller {
	struct pair p;
	_Atomic bool polls, ends, is_destroyed;
};

static void *poll_on(void *arg)
{
	struct poller *o = arg;
	struct ibv_wc wc;

	while (!o->ends) {
		MUST(ibv_poll_cq(o->p.a.cq, 1, &wc) <= 0);
		o->polls = true;
	}
	while (o->is_destroyed) { /* the thread has not seen it: it polls once more */
		ibv_poll_cq(o->p.a.cq, 1, &wc);
		o->is_destroyed = false;
	}
	return NULL;
}

static void cq_goes_while_it_is_polled(bool wrong)
{
	struct poller o = {.polls = false};
	pthread_t thread;

	pair_open(&o.p, (struct want){.is_idle = true});
	ZERO(ibv_destroy_qp(o.p.a.qp));
	o.p.a.qp = NULL;
	ZERO(pthread_create(&thread, NULL, poll_on, &o));
	while (!o.polls)
		;
	if (wrong) {
		ZERO(ibv_destroy_cq(o.p.a.cq));
		o.is_destroyed = true;
	}
	o.ends = true;
	ZERO(pthread_join(thread, NULL));
	if (!wrong)
		ZERO(ibv_destroy_cq(o.p.a.cq));
	o.p.a.cq = NULL;
	pair_close(&o.p);
}

/* The child finds it, and does not sum up. */
static void region_is_deregistered_in_child(bool wrong)
{
	struct pair p;
	pid_t child;

	ZERO(ibv_fork_init());
	pair_open(&p, (struct want){.is_idle = true});
	child = fork();
	if (!child) {
		if (wrong)
			ibv_dereg_mr(p.a.mr);
		_exit(0);
	}
	MUST(waitpid(child, NULL, 0) == child);
	if (wrong)
		return; /* leaks are found */
	pair_close(&p);
}

/* ---- completions and datagrams ---- */

/* byte_len says something of what has come, not of what was sent: the program goes wrong, here each time. */
static void length_of_what_was_sent(bool wrong)
{
	struct ibv_cq *more = NULL;
	struct ibv_wc sent, came;
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 64));
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	sent = await(&p.a);
	came = await(&p.b);
	MUST(came.byte_len == 64);
	if ((wrong ? sent.byte_len : came.byte_len) != 64)
		MUST(more = ibv_create_cq(p.context, 4, NULL, NULL, 0));
	pair_close(&p);
}

/* No message has brought immediate data. */
static void immediate_data_of_none(bool wrong)
{
	struct ibv_cq *more = NULL;
	struct ibv_wc came;
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 64));
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	came = await(&p.b);
	if ((wrong || came.wc_flags & IBV_WC_WITH_IMM) && came.imm_data)
		MUST(more = ibv_create_cq(p.context, 4, NULL, NULL, 0));
	pair_close(&p);
}

static void grh_does_not_fit(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.type = IBV_QPT_UD});
	receive(&p.b, piece(&p.b, 0, wrong ? 32 : GRH));
	pair_close(&p);
}

const struct row flight_rows[] = {
	{"read_is_sent_inline", read_is_sent_inline, "used-in-flight", "post"},
	{"read_is_sent_inline_in_a_batch", read_is_sent_inline_in_a_batch, "used-in-flight",
	 "read_is_sent_inline_in_a_batch"},
	{"read_is_written_by_another", read_is_written_by_another, "used-in-flight", "post"},
	{"atomic_is_sent_inline", atomic_is_sent_inline, "used-in-flight", "post"},
	{"address_handle_goes_first", address_handle_goes_first, "destroyed-outstanding", "address_handle_goes_first"},
	{"address_handle_is_gone", address_handle_is_gone, "used-destroyed", "post"},
	{"reset_with_a_write_outstanding", reset_with_a_write_outstanding, "destroyed-outstanding",
	 "reset_with_a_write_outstanding"},
	{"cq_goes_while_it_is_polled", cq_goes_while_it_is_polled, "used-destroyed", "poll_on"},
	{"region_is_deregistered_in_child", region_is_deregistered_in_child, "deregistered-in-child",
	 "region_is_deregistered_in_child"},
	{"length_of_what_was_sent", length_of_what_was_sent, "leak-cq", "length_of_what_was_sent"},
	{"immediate_data_of_none", immediate_data_of_none, "leak-cq", "immediate_data_of_none"},
	{"grh_does_not_fit", grh_does_not_fit, "no-room-for-grh", "receive"},
	{0},
};
