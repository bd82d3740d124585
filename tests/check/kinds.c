// SPDX-License-Identifier: BSD-2-Clause
/* Objects that few programs have, and their order. */
#include "pair.h"
#include "rows.h"

#include <fcntl.h>

#include <rdma/rdma_cma.h>

/* ---- leaks ---- */

static void leak_thread_domain(bool wrong)
{
	struct ibv_td_init_attr attr = {0};
	struct ibv_td *td;
	struct pair p;

	context_open(&p);
	MUST(td = ibv_alloc_td(p.context, &attr));
	if (!wrong)
		ZERO(ibv_dealloc_td(td));
	context_close(&p);
}

static void leak_parent_domain(bool wrong)
{
	struct ibv_parent_domain_init_attr attr = {0};
	struct ibv_pd *parent;
	struct pair p;

	context_open(&p);
	attr.pd = p.pd;
	MUST(parent = ibv_alloc_parent_domain(p.context, &attr));
	if (wrong)
		return;
	ZERO(ibv_dealloc_pd(parent));
	context_close(&p);
}

static void leak_device_memory(bool wrong)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm *dm;
	struct pair p;

	context_open(&p);
	MUST(dm = ibv_alloc_dm(p.context, &attr));
	if (!wrong)
		ZERO(ibv_free_dm(dm));
	context_close(&p);
}

static struct ibv_xrcd *open_domain(struct pair *p)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_xrcd *xrcd;

	MUST(xrcd = ibv_open_xrcd(p->context, &attr));
	return xrcd;
}

static void leak_xrc_domain(bool wrong)
{
	struct ibv_xrcd *xrcd;
	struct pair p;

	context_open(&p);
	xrcd = open_domain(&p);
	if (!wrong)
		ZERO(ibv_close_xrcd(xrcd));
	context_close(&p);
}

static void leak_counters(bool wrong)
{
	struct ibv_counters_init_attr attr = {0};
	struct ibv_counters *counters;
	struct pair p;

	context_open(&p);
	MUST(counters = ibv_create_counters(p.context, &attr));
	if (!wrong)
		ZERO(ibv_destroy_counters(counters));
	context_close(&p);
}

static struct ibv_wq *work_queue(struct pair *p, struct ibv_cq **cq)
{
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = p->pd};
	struct ibv_wq *wq;

	MUST(*cq = attr.cq = ibv_create_cq(p->context, 4, NULL, NULL, 0));
	MUST(wq = ibv_create_wq(p->context, &attr));
	return wq;
}

static void leak_work_queue(bool wrong)
{
	struct ibv_wq *wq;
	struct ibv_cq *cq;
	struct pair p;

	context_open(&p);
	wq = work_queue(&p, &cq);
	if (wrong)
		return;
	ZERO(ibv_destroy_wq(wq));
	ZERO(ibv_destroy_cq(cq));
	context_close(&p);
}

static void leak_table(bool wrong)
{
	struct ibv_rwq_ind_table_init_attr attr = {0};
	struct ibv_rwq_ind_table *table;
	struct ibv_wq *wq;
	struct ibv_cq *cq;
	struct pair p;

	context_open(&p);
	wq = work_queue(&p, &cq);
	attr.ind_tbl = &wq;
	MUST(table = ibv_create_rwq_ind_table(p.context, &attr));
	if (wrong)
		return;
	ZERO(ibv_destroy_rwq_ind_table(table));
	ZERO(ibv_destroy_wq(wq));
	ZERO(ibv_destroy_cq(cq));
	context_close(&p);
}

/* ---- order ---- */

static void thread_domain_goes_first(bool wrong)
{
	struct ibv_td_init_attr attr = {0};
	struct ibv_parent_domain_init_attr both = {0};
	struct ibv_pd *parent;
	struct pair p;

	context_open(&p);
	both.pd = p.pd;
	MUST(both.td = ibv_alloc_td(p.context, &attr));
	MUST(parent = ibv_alloc_parent_domain(p.context, &both));
	if (wrong)
		MUST(ibv_dealloc_td(both.td) == EBUSY);
	ZERO(ibv_dealloc_pd(parent));
	ZERO(ibv_dealloc_td(both.td));
	context_close(&p);
}

static void work_queue_goes_first(bool wrong)
{
	struct ibv_rwq_ind_table_init_attr attr = {0};
	struct ibv_rwq_ind_table *table;
	struct ibv_wq *wq;
	struct ibv_cq *cq;
	struct pair p;

	context_open(&p);
	wq = work_queue(&p, &cq);
	attr.ind_tbl = &wq;
	MUST(table = ibv_create_rwq_ind_table(p.context, &attr));
	if (wrong)
		MUST(ibv_destroy_wq(wq) == EBUSY);
	ZERO(ibv_destroy_rwq_ind_table(table));
	ZERO(ibv_destroy_wq(wq));
	ZERO(ibv_destroy_cq(cq));
	context_close(&p);
}

static void domain_of_srq_goes_first(bool wrong)
{
	struct ibv_srq_init_attr_ex attr = {.attr = {4, 1}, .srq_type = IBV_SRQT_XRC};
	struct ibv_srq *srq;
	struct pair p;

	context_open(&p);
	attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	attr.pd = p.pd;
	attr.xrcd = open_domain(&p);
	MUST(attr.cq = ibv_create_cq(p.context, 4, NULL, NULL, 0));
	MUST(srq = ibv_create_srq_ex(p.context, &attr));
	if (wrong)
		MUST(ibv_close_xrcd(attr.xrcd) == EBUSY);
	ZERO(ibv_destroy_srq(srq));
	ZERO(ibv_destroy_cq(attr.cq));
	ZERO(ibv_close_xrcd(attr.xrcd));
	context_close(&p);
}

static void qp_leaves_no_group(bool wrong)
{
	union ibv_gid group = {.raw = {0xff, 0x1e, [15] = 7}};
	struct pair p;

	pair_open(&p, (struct want){.type = IBV_QPT_UD});
	ZERO(ibv_attach_mcast(p.a.qp, &group, 0));
	if (wrong)
		MUST(ibv_destroy_qp(p.a.qp) == EBUSY);
	ZERO(ibv_detach_mcast(p.a.qp, &group, 0));
	pair_close(&p);
}

static void bind_window(struct pair *p, struct ibv_mw *mw)
{
	struct ibv_mw_bind bind = {.wr_id = 9, .send_flags = IBV_SEND_SIGNALED};

	bind.bind_info = (struct ibv_mw_bind_info){
		.mr = p->a.mr, .addr = (uintptr_t)p->a.memory, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_READ};
	ZERO(ibv_bind_mw(p->a.qp, mw, &bind));
	MUST(await(&p->a).status == IBV_WC_SUCCESS);
}

static void region_outlived_by_window(bool wrong)
{
	struct ibv_mw *mw;
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p, (struct want){0});
	MUST(mr = ibv_reg_mr(p.pd, p.a.memory, SIZE, ALL | IBV_ACCESS_MW_BIND));
	ZERO(ibv_dereg_mr(p.a.mr));
	p.a.mr = mr;
	MUST(mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_1));
	bind_window(&p, mw);
	if (wrong)
		MUST(ibv_dereg_mr(mr) == EBUSY);
	ZERO(ibv_dealloc_mw(mw));
	pair_close(&p);
}

static void id_outlives_channel(bool wrong)
{
	struct rdma_event_channel *channel, *other;
	struct rdma_cm_id *id;

	MUST(channel = rdma_create_event_channel());
	MUST(other = rdma_create_event_channel());
	ZERO(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	if (!wrong)
		ZERO(rdma_migrate_id(id, other));
	rdma_destroy_event_channel(channel);
	ZERO(rdma_destroy_id(id));
	rdma_destroy_event_channel(other);
}

/* ---- in flight ---- */

static void region_of_a_shared_receive(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.shares = true});
	receive(&p.b, piece(&p.b, 0, 64));
	if (!wrong) {
		ZERO(ibv_destroy_qp(p.a.qp));
		ZERO(ibv_destroy_qp(p.b.qp));
		p.a.qp = p.b.qp = NULL;
	}
	ZERO(ibv_dereg_mr(p.b.mr));
	p.b.mr = NULL;
	pair_close(&p);
}

/* Other rights are another region to the adapter. */
static void region_of_a_receive_is_made_again(bool wrong)
{
	int fewer = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 64));
	if (!wrong) {
		post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
		await(&p.a);
		await(&p.b);
	}
	ZERO(ibv_rereg_mr(p.b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, fewer));
	pair_close(&p);
}

/* ---- what goes on in spite of it ---- */

static void qp_is_destroyed_twice(bool wrong)
{
	struct ibv_qp *qp;
	struct pair p;

	pair_open(&p, (struct want){.is_idle = true});
	qp = p.a.qp;
	ZERO(ibv_destroy_qp(qp));
	p.a.qp = NULL;
	if (wrong)
		MUST(ibv_destroy_qp(qp));
	pair_close(&p);
}

static void region_is_deregistered_twice(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	context_open(&p);
	MUST(mr = ibv_reg_mr(p.pd, &p, sizeof(p), 0));
	ZERO(ibv_dereg_mr(mr));
	if (wrong)
		MUST(ibv_dereg_mr(mr));
	context_close(&p);
}

static void posted_to_a_destroyed_qp(bool wrong)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_qp *qp;
	struct pair p;

	pair_open(&p, (struct want){0});
	sge = piece(&p.a, 0, 64);
	qp = p.a.qp;
	if (!wrong)
		ZERO(ibv_post_recv(qp, &wr, &bad));
	ZERO(ibv_destroy_qp(qp));
	p.a.qp = NULL;
	if (wrong)
		MUST(ibv_post_recv(qp, &wr, &bad));
	pair_close(&p);
}

static void failure_is_not_looked_at(bool wrong)
{
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, (struct want){0});
	for (int i = 0; i < 4; i++) {
		struct ibv_sge sge = piece(&p.a, 0, 64);

		sge.lkey += i == 1; /* unknown */
		post(&p.a, IBV_WR_RDMA_WRITE, sge, &p.b, IBV_SEND_SIGNALED);
		wc = await(&p.a);
		if (!wrong && wc.status != IBV_WC_SUCCESS)
			break;
		MUST(!ibv_poll_cq(p.b.cq, 1, &wc));
	}
	pair_close(&p);
}

static void failure_of_extended_cq(bool wrong)
{
	struct ibv_poll_cq_attr attr = {0};
	struct pair p;

	pair_open(&p, (struct want){.extends = true});
	for (int i = 0; i < 4; i++) {
		struct ibv_sge sge = piece(&p.a, 0, 64);
		enum ibv_wc_status status;

		sge.lkey += i == 1;
		post(&p.a, IBV_WR_RDMA_WRITE, sge, &p.b, IBV_SEND_SIGNALED);
		while (ibv_start_poll(p.a.cq_ex, &attr))
			;
		status = p.a.cq_ex->status;
		ibv_end_poll(p.a.cq_ex);
		MUST(ibv_start_poll(p.a.cq_ex, &attr) == ENOENT);
		MUST(ibv_start_poll(p.a.cq_ex, &attr) == ENOENT);
		if (!wrong && status != IBV_WC_SUCCESS)
			break;
	}
	pair_close(&p);
}

/* Ends a wait that would have no end. */
static void arm_and_send(void *arg)
{
	struct pair *p = arg;
	struct ibv_wc wc;

	ZERO(ibv_req_notify_cq(p->b.cq, 0));
	MUST(!ibv_poll_cq(p->b.cq, 1, &wc));
	post(&p->a, IBV_WR_SEND, piece(&p->a, 0, 64), &p->b, IBV_SEND_SIGNALED);
}

static void wait_for_one(struct pair *p)
{
	struct ibv_cq *cq;
	void *context;

	ZERO(ibv_get_cq_event(p->channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
}

static void never_armed(bool wrong)
{
	struct help help;
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 64));
	if (wrong)
		help_begin(&help, "never-armed", arm_and_send, &p);
	else
		arm_and_send(&p);
	wait_for_one(&p);
	if (wrong)
		help_end(&help);
	await(&p.a);
	await(&p.b);
	pair_close(&p);
}

/* The first wait was armed. Each needs it again. */
static void armed_once(bool wrong)
{
	struct help help;
	struct pair p;

	pair_open(&p, (struct want){0});
	for (int i = 0; i < 2; i++) {
		receive(&p.b, piece(&p.b, 0, 64));
		if (i && wrong)
			help_begin(&help, "never-armed", arm_and_send, &p);
		else
			arm_and_send(&p);
		wait_for_one(&p);
		if (i && wrong)
			help_end(&help);
		await(&p.a);
		await(&p.b);
	}
	pair_close(&p);
}

const struct row kind_rows[] = {
	{"leak_thread_domain", leak_thread_domain, "leak-thread-domain", "leak_thread_domain"},
	{"leak_parent_domain", leak_parent_domain, "leak-parent-domain", "leak_parent_domain"},
	{"leak_device_memory", leak_device_memory, "leak-dm", "leak_device_memory"},
	{"leak_xrc_domain", leak_xrc_domain, "leak-xrcd", "open_domain"},
	{"leak_counters", leak_counters, "leak-counters", "leak_counters"},
	{"leak_work_queue", leak_work_queue, "leak-wq", "work_queue"},
	{"leak_table", leak_table, "leak-wq-table", "leak_table"},
	{"thread_domain_goes_first", thread_domain_goes_first, "destroyed-in-use", "thread_domain_goes_first"},
	{"work_queue_goes_first", work_queue_goes_first, "destroyed-in-use", "work_queue_goes_first"},
	{"domain_of_srq_goes_first", domain_of_srq_goes_first, "destroyed-in-use", "domain_of_srq_goes_first"},
	{"qp_leaves_no_group", qp_leaves_no_group, "destroyed-in-use", "qp_leaves_no_group"},
	{"region_outlived_by_window", region_outlived_by_window, "destroyed-in-use", "region_outlived_by_window"},
	{"id_outlives_channel", id_outlives_channel, "destroyed-in-use", "id_outlives_channel"},
	{"region_of_a_shared_receive", region_of_a_shared_receive, "deregistered-in-flight",
	 "region_of_a_shared_receive"},
	{"region_of_a_receive_is_made_again", region_of_a_receive_is_made_again, "deregistered-in-flight",
	 "region_of_a_receive_is_made_again"},
	{"qp_is_destroyed_twice", qp_is_destroyed_twice, "used-destroyed", "qp_is_destroyed_twice"},
	{"region_is_deregistered_twice", region_is_deregistered_twice, "used-destroyed",
	 "region_is_deregistered_twice"},
	{"posted_to_a_destroyed_qp", posted_to_a_destroyed_qp, "used-destroyed", "posted_to_a_destroyed_qp"},
	{"failure_is_not_looked_at", failure_is_not_looked_at, "status-ignored", "post"},
	{"failure_of_extended_cq", failure_of_extended_cq, "status-ignored", "post"},
	{"never_armed", never_armed, "never-armed", "wait_for_one"},
	{"armed_once", armed_once, "never-armed", "wait_for_one"},
	{0},
};
