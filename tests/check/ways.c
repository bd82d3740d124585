// SPDX-License-Identifier: BSD-2-Clause
/* The same mistakes by other ways: SRQs, datagrams, extended queue pairs and CQs, other opcodes. */
#include "pair.h"
#include "rows.h"

enum { GRH = 40 }; /* before a datagram */

/* ---- leaks ---- */

static void leak_extended_cq(bool wrong)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 4, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq_ex *cq;
	struct pair p;

	context_open(&p);
	MUST(cq = ibv_create_cq_ex(p.context, &attr));
	if (!wrong)
		ZERO(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	context_close(&p);
}

static void *worker(void *arg)
{
	struct pair *p = arg;

	MUST(p->a.mr = ibv_reg_mr(p->pd, p, sizeof(*p), 0));
	return NULL;
}

/* What a thread has registered outlives it. */
static void leak_of_thread(bool wrong)
{
	pthread_t thread;
	struct pair p;

	context_open(&p);
	ZERO(pthread_create(&thread, NULL, worker, &p));
	ZERO(pthread_join(thread, NULL));
	if (wrong)
		return;
	ZERO(ibv_dereg_mr(p.a.mr));
	context_close(&p);
}

/* An error path that returns before the clean-up. */
static bool try_to_serve(struct pair *p, bool forgets)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1u << 30}};
	struct ibv_cq *cq;

	MUST(cq = ibv_create_cq(p->context, 4, NULL, NULL, 0));
	attr.send_cq = attr.recv_cq = cq;
	p->a.qp = ibv_create_qp(p->pd, &attr);
	if (!p->a.qp && forgets)
		return false;
	ZERO(ibv_destroy_cq(cq));
	return p->a.qp;
}

static void leak_after_failure(bool wrong)
{
	struct pair p;

	context_open(&p);
	MUST(!try_to_serve(&p, wrong));
	context_close(&p);
}

/* ---- habits ---- */

static void qp_outlives_srq(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.shares = true, .is_idle = true});
	if (wrong)
		MUST(ibv_destroy_srq(p.srq) == EBUSY);
	pair_close(&p);
}

static void ah_outlives_pd(bool wrong)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	struct ibv_ah *ah;
	struct pair p;

	context_open(&p);
	ZERO(ibv_query_gid(p.context, 1, 0, &attr.grh.dgid));
	MUST(ah = ibv_create_ah(p.pd, &attr));
	if (wrong)
		MUST(ibv_dealloc_pd(p.pd) == EBUSY);
	ZERO(ibv_destroy_ah(ah));
	context_close(&p);
}

static void window_outlives_pd(bool wrong)
{
	struct ibv_mw *mw;
	struct pair p;

	context_open(&p);
	MUST(mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_1));
	if (wrong)
		MUST(ibv_dealloc_pd(p.pd) == EBUSY);
	ZERO(ibv_dealloc_mw(mw));
	context_close(&p);
}

/* Each fits, but not both. */
static void two_qps_share_a_small_cq(bool wrong)
{
	struct ibv_cq *own;
	struct pair p;

	pair_open(&p, (struct want){.cqe = 4, .is_idle = true});
	ZERO(ibv_destroy_qp(p.b.qp));
	own = p.b.cq;
	p.b.cq = wrong ? p.a.cq : own;
	MUST(p.b.qp = ibv_create_qp(p.pd, &(struct ibv_qp_init_attr){.send_cq = p.b.cq,
								     .recv_cq = p.b.cq,
								     .qp_type = IBV_QPT_RC,
								     .cap = {.max_recv_wr = 4, .max_recv_sge = 1}}));
	ZERO(ibv_modify_qp(p.b.qp,
			   &(struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL},
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	for (int i = 0; i < 3; i++) {
		receive(&p.a, piece(&p.a, 0, 64));
		receive(&p.b, piece(&p.b, 0, 64));
	}
	ZERO(ibv_destroy_qp(p.b.qp));
	p.b.qp = NULL;
	p.b.cq = own;
	pair_close(&p);
}

static void sends_and_receives_share_a_small_cq(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.cqe = wrong ? 4 : 8});
	for (int i = 0; i < 3; i++)
		receive(&p.a, piece(&p.a, 0, 64));
	for (int i = 0; i < 2; i++)
		post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 64, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	await(&p.a);
	pair_close(&p);
}

/* One in sixteen is signalled, and eight fit. */
static void signalled_too_seldom(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	for (int i = 0; i < DEPTH; i++)
		post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 64), &p.b,
		     i % (wrong ? 2 * DEPTH : DEPTH / 2) == (wrong ? DEPTH : DEPTH / 2 - 1) ? IBV_SEND_SIGNALED : 0);
	for (int i = 0; !wrong && i < 2; i++)
		await(&p.a);
	pair_close(&p);
}

static void poll_extended(struct end *e)
{
	struct ibv_poll_cq_attr attr = {0};
	int error;

	do
		error = ibv_start_poll(e->cq_ex, &attr);
	while (error == ENOENT);
	ZERO(error);
	MUST(e->cq_ex->status == IBV_WC_SUCCESS);
	ibv_end_poll(e->cq_ex);
}

static void wakeup_of_extended_cq_is_lost(bool wrong)
{
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_cq *cq;
	struct pair p;
	void *context;

	pair_open(&p, (struct want){.extends = true});
	for (int i = 0; i < 2; i++) {
		MUST(ibv_start_poll(p.a.cq_ex, &attr) == ENOENT);
		if (!wrong)
			ZERO(ibv_req_notify_cq(p.a.cq, 0));
		post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
		if (wrong)
			ZERO(ibv_req_notify_cq(p.a.cq, 0));
		ZERO(ibv_get_cq_event(p.channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
		poll_extended(&p.a);
	}
	pair_close(&p);
}

static void acknowledge_event(void *event)
{
	ibv_ack_async_event(event);
}

static void limit_event_is_not_acknowledged(bool wrong)
{
	struct ibv_srq_attr limit = {.srq_limit = 2};
	struct ibv_async_event event;
	struct help help;
	struct pair p;

	pair_open(&p, (struct want){.shares = true});
	for (int i = 0; i < 2; i++)
		receive(&p.b, piece(&p.b, 0, 64));
	ZERO(ibv_modify_srq(p.srq, &limit, IBV_SRQ_LIMIT));
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	await(&p.b);
	ZERO(ibv_get_async_event(p.context, &event));
	MUST(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
	if (wrong)
		help_begin(&help, "not-acknowledged", acknowledge_event, &event);
	else
		ibv_ack_async_event(&event);
	pair_close(&p);
	if (wrong)
		help_end(&help);
}

/* The message has no receive, so it is not even there. */
static void send_is_not_awaited(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	if (!wrong) {
		receive(&p.b, piece(&p.b, 0, 64));
		await(&p.b);
		await(&p.a);
	}
	ZERO(ibv_destroy_qp(p.a.qp));
	p.a.qp = NULL;
	pair_close(&p);
}

static void region_of_a_read(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_RDMA_READ, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&p.a);
	ZERO(ibv_dereg_mr(p.a.mr));
	p.a.mr = NULL;
	if (wrong)
		await(&p.a);
	pair_close(&p);
}

/* What an atomic brings is written on. */
static void atomic_is_written_on(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(&p.a, 0, 8), &p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&p.a);
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	if (wrong)
		await(&p.a);
	await(&p.a);
	pair_close(&p);
}

/* ---- buffers ---- */

static void datagram_changes(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.type = IBV_QPT_UD});
	receive(&p.b, piece(&p.b, 0, GRH + 64));
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	if (wrong)
		p.a.memory[0] = 1;
	await(&p.a);
	await(&p.b);
	pair_close(&p);
}

static void receive_of_datagram_is_written_to(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.type = IBV_QPT_UD});
	receive(&p.b, piece(&p.b, 0, GRH + 64));
	if (wrong)
		p.b.memory[GRH] = 1;
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	await(&p.b);
	pair_close(&p);
}

static void uc_write_changes(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.type = IBV_QPT_UC});
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	if (wrong)
		p.a.memory[0] = 1;
	await(&p.a);
	pair_close(&p);
}

static void write_with_immediate_changes(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 64, 64));
	post(&p.a, IBV_WR_RDMA_WRITE_WITH_IMM, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	if (wrong)
		p.a.memory[63] = 1;
	await(&p.a);
	await(&p.b);
	pair_close(&p);
}

static void shared_receive_is_written_to(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.shares = true});
	receive(&p.b, piece(&p.b, 0, 64));
	if (wrong)
		p.b.memory[0] = 1;
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	await(&p.b);
	pair_close(&p);
}

static void swap_is_written_to(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_ATOMIC_CMP_AND_SWP, piece(&p.a, 0, 8), &p.b, IBV_SEND_SIGNALED);
	if (wrong)
		memset(p.a.memory, 0xff, 8);
	await(&p.a);
	pair_close(&p);
}

static void batch_changes(bool wrong)
{
	struct ibv_qp_ex *qp;
	struct pair p;

	pair_open(&p, (struct want){.extends = true});
	qp = ibv_qp_to_qp_ex(p.a.qp);
	ibv_wr_start(qp);
	qp->wr_id = 5;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, p.b.mr->rkey, (uintptr_t)p.b.memory);
	ibv_wr_set_sge(qp, p.a.mr->lkey, (uintptr_t)p.a.memory, 64);
	ZERO(ibv_wr_complete(qp));
	if (wrong)
		p.a.memory[0] = 1;
	poll_extended(&p.a);
	pair_close(&p);
}

/* ---- mappings ---- */

static void freed_first(bool wrong)
{
	const size_t size = 1 << 22; /* malloc(3) maps it */
	struct ibv_mr *mr;
	struct pair p;
	char *at;

	context_open(&p);
	MUST(at = malloc(size));
	memset(at, 0, size);
	MUST(mr = ibv_reg_mr(p.pd, at, size, ALL));
	if (wrong)
		free(at);
	ZERO(ibv_dereg_mr(mr));
	if (!wrong)
		free(at);
	context_close(&p);
}

const struct row way_rows[] = {
	{"leak_extended_cq", leak_extended_cq, "leak-cq", "leak_extended_cq"},
	{"leak_of_thread", leak_of_thread, "leak-region", "worker"},
	{"leak_after_failure", leak_after_failure, "leak-cq", "try_to_serve"},
	{"qp_outlives_srq", qp_outlives_srq, "destroyed-in-use", "qp_outlives_srq"},
	{"ah_outlives_pd", ah_outlives_pd, "destroyed-in-use", "ah_outlives_pd"},
	{"window_outlives_pd", window_outlives_pd, "destroyed-in-use", "window_outlives_pd"},
	{"two_qps_share_a_small_cq", two_qps_share_a_small_cq, "cq-too-small", "receive"},
	{"sends_and_receives_share_a_small_cq", sends_and_receives_share_a_small_cq, "cq-too-small", "post"},
	{"signalled_too_seldom", signalled_too_seldom, "never-signalled", "post"},
	{"wakeup_of_extended_cq_is_lost", wakeup_of_extended_cq_is_lost, "lost-wakeup",
	 "wakeup_of_extended_cq_is_lost"},
	{"limit_event_is_not_acknowledged", limit_event_is_not_acknowledged, "not-acknowledged", "pair_close"},
	{"send_is_not_awaited", send_is_not_awaited, "destroyed-outstanding", "send_is_not_awaited"},
	{"region_of_a_read", region_of_a_read, "deregistered-in-flight", "region_of_a_read"},
	{"atomic_is_written_on", atomic_is_written_on, "fence-missing", "post"},
	{"datagram_changes", datagram_changes, "changed-in-flight", "post"},
	{"receive_of_datagram_is_written_to", receive_of_datagram_is_written_to, "written-in-flight", "receive"},
	{"uc_write_changes", uc_write_changes, "changed-in-flight", "post"},
	{"write_with_immediate_changes", write_with_immediate_changes, "changed-in-flight", "post"},
	{"shared_receive_is_written_to", shared_receive_is_written_to, "written-in-flight", "receive"},
	{"swap_is_written_to", swap_is_written_to, "written-in-flight", "post"},
	{"batch_changes", batch_changes, "changed-in-flight", "batch_changes"},
	{"freed_first", freed_first, "unmapped-registered", "freed_first"},
	{0},
};
