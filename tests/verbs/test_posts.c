/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting and polling: what is refused at once, what completes how, and what a full queue does. */
#include "verbs/fixture.h"

#include <string.h>

static void posts_need_a_state(void **state)
{
	static const struct {
		enum ibv_qp_state state;
		int send, receive;
	} rows[] = {
		{IBV_QPS_RESET, EINVAL, EINVAL},
		{IBV_QPS_INIT, EINVAL, 0},
		{IBV_QPS_RTR, EINVAL, 0},
		{IBV_QPS_RTS, 0, 0},
		{IBV_QPS_SQD, 0, 0},
		{IBV_QPS_ERR, 0, 0},
	};
	struct side *s = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bring(s[0].qp, s[1].qp, IBV_QPS_RESET);
		if (rows[i].state != IBV_QPS_RESET)
			bring(s[0].qp, s[1].qp, rows[i].state);
		assert_int_equal(side_receive(&s[0], 1), rows[i].receive);
		assert_int_equal(side_write(&s[0], &s[1], 8), rows[i].send);
	}
}

static void the_error_state_flushes_in_order(void **state)
{
	struct side *s = *state;
	struct ibv_wc wc;

	connect_sides(s);
	for (int i = 0; i < 3; i++)
		assert_int_equal(side_receive(&s[0], 100 + i), 0);
	bring(s[0].qp, s[1].qp, IBV_QPS_ERR);
	assert_int_equal(side_receive(&s[0], 103), 0);
	for (int i = 0; i < 4; i++) {
		wc = next(s[0].cq);
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.wr_id, 100 + i);
		assert_int_equal(wc.qp_num, s[0].qp->qp_num);
	}
	assert_int_equal(side_write(&s[0], &s[1], 8), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_WR_FLUSH_ERR);
}

static void reset_forgets_everything(void **state)
{
	struct side *s = *state;
	struct ibv_wc wc;

	connect_sides(s);
	for (int i = 0; i < 16; i++)
		assert_int_equal(side_receive(&s[0], i), 0);
	assert_int_equal(side_receive(&s[0], 16), ENOMEM);
	bring(s[0].qp, s[1].qp, IBV_QPS_ERR);
	bring(s[0].qp, s[1].qp, IBV_QPS_RESET);
	assert_int_equal(ibv_poll_cq(s[0].cq, 1, &wc), 0);
	bring(s[0].qp, s[1].qp, IBV_QPS_INIT);
	for (int i = 0; i < 16; i++)
		assert_int_equal(side_receive(&s[0], i), 0);
}

static void a_full_queue_says_so_and_which(void **state)
{
	struct side *s = *state;
	struct ibv_recv_wr rr[20] = {0}, *bad_rr = NULL;
	struct ibv_send_wr wr[20] = {0}, *bad = NULL;
	struct ibv_wc wc;

	connect_sides(s);
	for (int i = 0; i < 20; i++) {
		wr[i].opcode = IBV_WR_RDMA_WRITE;
		wr[i].wr.rdma.rkey = s[1].mr->rkey;
		wr[i].wr_id = i;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		if (i) {
			rr[i - 1].next = &rr[i];
			wr[i - 1].next = &wr[i];
		}
	}
	assert_int_equal(ibv_post_recv(s[0].qp, rr, &bad_rr), ENOMEM);
	assert_ptr_equal(bad_rr, &rr[16]);
	assert_int_equal(ibv_post_send(s[0].qp, wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[16]);
	for (int i = 0; i < 16; i++) { /* those before the bad one are under way */
		wc = next(s[0].cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, i);
	}
	assert_int_equal(ibv_post_send(s[0].qp, &wr[16], &bad), 0); /* the last four: there is room again */
	for (int i = 16; i < 20; i++)
		assert_int_equal(next(s[0].cq).wr_id, i);
}

static void an_empty_list_is_no_mistake(void **state)
{
	struct side *s = *state;
	struct ibv_recv_wr *bad_rr;
	struct ibv_send_wr *bad;

	connect_sides(s);
	assert_int_equal(ibv_post_recv(s[0].qp, NULL, &bad_rr), 0);
	assert_int_equal(ibv_post_send(s[0].qp, NULL, &bad), 0);
}

static void requests_are_checked(void **state)
{
	struct side *s = *state;
	struct ibv_sge three[3];
	const struct {
		enum ibv_wr_opcode opcode;
		int num_sge, length, flags, error;
	} rows[] = {
		{IBV_WR_RDMA_WRITE, 2, 8, 0, 0},
		{IBV_WR_RDMA_WRITE, 3, 8, 0, EINVAL}, /* made for two */
		{IBV_WR_RDMA_WRITE, -1, 8, 0, EINVAL},
		{IBV_WR_RDMA_WRITE, 2, 32, IBV_SEND_INLINE, 0},
		{IBV_WR_RDMA_WRITE, 2, 33, IBV_SEND_INLINE, EINVAL}, /* made for 64 bytes */
		{IBV_WR_RDMA_READ, 1, 8, IBV_SEND_INLINE, EINVAL},
		{IBV_WR_LOCAL_INV, 1, 8, 0, EINVAL}, /* these two have no data */
		{IBV_WR_BIND_MW, 1, 8, 0, EINVAL},
		{IBV_WR_BIND_MW, 0, 0, 0, EINVAL}, /* no window */
		{IBV_WR_LOCAL_INV, 0, 0, IBV_SEND_INLINE, EINVAL},
		{IBV_WR_TSO, 1, 8, 0, EINVAL},
		{100, 1, 8, 0, EINVAL},
		{-1, 1, 8, 0, EINVAL},
	};

	connect_sides(s);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_send_wr wr = {
			.sg_list = three,
			.num_sge = rows[i].num_sge,
			.opcode = rows[i].opcode,
			.send_flags = IBV_SEND_SIGNALED | rows[i].flags,
			.wr.rdma = {(uintptr_t)s[1].memory, s[1].mr->rkey},
		};

		for (int k = 0; k < 3; k++)
			three[k] = piece(&s[0], 64 * k, rows[i].length);
		assert_int_equal(side_send(&s[0], &wr), rows[i].error);
		if (!rows[i].error)
			assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	}
}

static void inline_data_may_change_at_once(void **state)
{
	struct side *s = *state;
	char word[8] = "before";
	struct ibv_sge sge = {.addr = (uintptr_t)word, .length = 8}; /* no lkey: nobody looks at it */
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
				 .wr.rdma = {(uintptr_t)s[1].memory, s[1].mr->rkey}};

	connect_sides(s);
	assert_int_equal(side_send(&s[0], &wr), 0);
	memcpy(word, "after", 6);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_string_equal(s[1].memory, "before");
}

static void a_completion_tells_all(void **state)
{
	struct side *s = *state;
	struct ibv_sge sge = piece(&s[0], 0, 100);
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = 0x01020304};
	struct ibv_wc wc;

	connect_sides(s);
	assert_int_equal(side_receive(&s[1], 9), 0);
	assert_int_equal(side_send(&s[0], &wr), 0);
	wc = next(s[1].cq);
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 100);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x01020304);
	assert_int_equal(wc.qp_num, s[1].qp->qp_num);
	wc = next(s[0].cq);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	assert_int_equal(wc.qp_num, s[0].qp->qp_num);
}

static void polling_for_many_takes_what_is_there(void **state)
{
	struct side *s = *state;
	struct ibv_wc wc[40];
	int n = 0;

	connect_sides(s);
	for (int i = 0; i < 16; i++)
		assert_int_equal(side_receive(&s[0], i), 0);
	bring(s[0].qp, s[1].qp, IBV_QPS_ERR);
	while (n < 16)
		n += ibv_poll_cq(s[0].cq, n ? 40 - n : 3, wc + n); /* in two bites, more than are there */
	assert_int_equal(n, 16);
	for (int i = 0; i < n; i++)
		assert_int_equal(wc[i].wr_id, i);
	assert_int_equal(ibv_poll_cq(s[0].cq, 0, wc), 0);
	assert_int_equal(ibv_poll_cq(s[0].cq, 1, wc), 0);
}

/* The rights that only a queue pair's own region checks show: statuses of each kind are in
 * programs/mistakes.c. */
static void a_dead_region_is_nobodys(void **state)
{
	struct side *s = *state;
	uint32_t key = s[1].mr->rkey;
	struct ibv_sge sge = piece(&s[0], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)s[1].memory, key}};

	connect_sides(s);
	assert_int_equal(ibv_rereg_mr(s[1].mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS), 0);
	assert_int_equal(side_send(&s[0], &wr), 0); /* it keeps its key */
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_rereg_mr(s[1].mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, s[1].memory, 8, 0), 0);
	assert_int_equal(side_send(&s[0], &wr), 0); /* by the key that was */
	assert_int_equal(next(s[0].cq).status, IBV_WC_REM_ACCESS_ERR);
}

static void regions_of_another_domain_are_refused(void **state)
{
	struct side *s = *state;
	struct ibv_sge sge = piece(&s[1], 0, 8); /* the other side's */
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)s[1].memory, s[1].mr->rkey}};

	connect_sides(s);
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_LOC_PROT_ERR);
}

static void a_zero_based_region_counts_from_zero(void **state)
{
	struct side *s = *state;
	struct ibv_mr *mr = ibv_reg_mr(s[1].pd, s[1].memory + 100, 50, ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
	struct ibv_sge sge = piece(&s[0], 0, 2);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {48, mr->rkey}};

	connect_sides(s);
	memcpy(s[0].memory, "xy", 2);
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(s[1].memory + 148, "xy", 2);
	wr.wr.rdma.remote_addr = 49;
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void a_resized_queue_keeps_its_completions(void **state)
{
	struct side *s = *state;

	connect_sides(s);
	for (int i = 0; i < 10; i++)
		assert_int_equal(side_receive(&s[0], i), 0);
	bring(s[0].qp, s[1].qp, IBV_QPS_ERR);
	assert_int_equal(ibv_resize_cq(s[0].cq, 8), EINVAL); /* ten are waiting */
	assert_int_equal(ibv_resize_cq(s[0].cq, 10), 0);
	assert_int_equal(ibv_resize_cq(s[0].cq, 1000), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(next(s[0].cq).wr_id, i);
}

static void an_overrun_queue_is_an_event(void **state)
{
	struct side *s = *state;
	struct ibv_async_event e;

	assert_int_equal(ibv_resize_cq(s[0].cq, 3), 0);
	connect_sides(s);
	for (int i = 0; i < 5; i++)
		assert_int_equal(side_receive(&s[0], i), 0);
	bring(s[0].qp, s[1].qp, IBV_QPS_ERR);
	do {
		assert_int_equal(ibv_get_async_event(context, &e), 0);
		ibv_ack_async_event(&e);
	} while (e.event_type != IBV_EVENT_CQ_ERR);
	assert_ptr_equal(e.element.cq, s[0].cq);
	for (int i = 0; i < 3; i++)
		assert_int_equal(next(s[0].cq).wr_id, i);
}

/* ... unless its user does not want to know. */
static void an_overrun_may_be_ignored(void **state)
{
	struct side *s = *state;
	struct ibv_cq_init_attr_ex a = {
		.cqe = 3, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN};
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &a));
	struct ibv_qp *qp = make_qp(s[0].pd, cq, &(struct ibv_qp_cap){16, 16, 1, 1, 0});
	struct ibv_recv_wr *bad, wr = {0};

	bring(qp, s[1].qp, IBV_QPS_ERR);
	for (int i = 0; i < 5; i++)
		assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(next(cq).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0); /* it goes on working */
	assert_int_equal(next(cq).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void the_extended_poll_reads_each_field(void **state)
{
	struct side *s = *state;
	struct ibv_cq_init_attr_ex a = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_CVLAN |
			    IBV_WC_EX_WITH_FLOW_TAG,
	};
	struct ibv_values_ex clock = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &a);
	struct ibv_poll_cq_attr poll = {0}, bad = {.comp_mask = 1};
	struct ibv_qp *plain = s[0].qp;
	uint64_t before;

	s[0].qp = make_qp(s[0].pd, ibv_cq_ex_to_cq(cq), &(struct ibv_qp_cap){16, 16, 1, 1, 0});
	connect_sides(s);
	assert_int_equal(ibv_start_poll(cq, &bad), EINVAL);
	assert_int_equal(ibv_start_poll(cq, &poll), ENOENT);
	assert_int_equal(ibv_query_rt_values_ex(context, &clock), 0);
	before = clock.raw_clock.tv_sec * 1000000000ull + clock.raw_clock.tv_nsec;
	assert_int_equal(side_write(&s[0], &s[1], 8), 0);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0);
	while (ibv_start_poll(cq, &poll))
		;
	assert_int_equal(cq->status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
	assert_int_equal(ibv_wc_read_qp_num(cq), s[0].qp->qp_num);
	assert_int_equal(ibv_wc_read_vendor_err(cq), 0);
	assert_int_equal(ibv_wc_read_wc_flags(cq), 0);
	assert_int_equal(ibv_wc_read_slid(cq), 0);
	assert_int_equal(ibv_wc_read_sl(cq), 0);
	assert_int_equal(ibv_wc_read_dlid_path_bits(cq), 0);
	assert_int_equal(ibv_wc_read_cvlan(cq), 0);
	assert_int_equal(ibv_wc_read_flow_tag(cq), 0);
	assert_true(ibv_wc_read_completion_ts(cq) >= before);
	assert_true(ibv_wc_read_completion_wallclock_ns(cq) > before);
	ibv_end_poll(cq);
	while (ibv_start_poll(cq, &poll))
		;
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	assert_int_equal(ibv_destroy_qp(s[0].qp), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	s[0].qp = plain;
}

/* A queue pair with the ibv_wr_ functions in place of side 0's. */
static struct ibv_qp_ex *with_builder(struct side *s)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = {4, 4, 2, 2, 64},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = s->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	};

	assert_int_equal(ibv_destroy_qp(s->qp), 0);
	assert_non_null(s->qp = ibv_create_qp_ex(context, &a));
	return ibv_qp_to_qp_ex(s->qp);
}

static void a_batch_is_built_and_posted(void **state)
{
	struct side *s = *state;
	struct ibv_qp_ex *ex = with_builder(&s[0]);
	uint64_t there = (uintptr_t)s[1].memory;
	struct ibv_wc wc;

	connect_sides(s);
	assert_int_equal(side_receive(&s[1], 5), 0);
	strcpy(s[0].memory, "first");
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, s[1].mr->rkey, there);
	ibv_wr_set_sge(ex, s[0].mr->lkey, (uintptr_t)s[0].memory, 6);
	ex->wr_id = 2;
	ibv_wr_rdma_write(ex, s[1].mr->rkey, there + 6);
	{
		char gone[] = "second";

		ibv_wr_set_inline_data(ex, gone, 7);
		memset(gone, 'x', sizeof(gone));
	}
	ex->wr_id = 3;
	ibv_wr_atomic_fetch_add(ex, s[1].mr->rkey, there + 64, 41);
	ibv_wr_set_sge(ex, s[0].mr->lkey, (uintptr_t)s[0].memory + 64, 8);
	ex->wr_id = 4;
	ibv_wr_send_imm(ex, 0x11223344);
	ibv_wr_set_sge_list(ex, 2, (struct ibv_sge[]){piece(&s[0], 0, 3), piece(&s[0], 3, 3)});
	assert_int_equal(ibv_wr_complete(ex), 0);
	for (int i = 1; i <= 4; i++) {
		wc = next(s[0].cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, i);
	}
	wc = next(s[1].cq);
	assert_int_equal(wc.imm_data, 0x11223344);
	assert_int_equal(wc.byte_len, 6);
	assert_memory_equal(s[1].memory + 6, "second", 7);
	assert_int_equal(*(uint64_t *)(s[1].memory + 64), 41);
}

static void a_batch_with_a_mistake_is_not_posted(void **state)
{
	struct side *s = *state;
	struct ibv_qp_ex *ex = with_builder(&s[0]);
	char big[65] = "";
	struct ibv_wc wc;

	connect_sides(s);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, s[1].mr->rkey, (uintptr_t)s[1].memory);
	ibv_wr_rdma_write(ex, s[1].mr->rkey, (uintptr_t)s[1].memory);
	ibv_wr_set_inline_data(ex, big, sizeof(big)); /* made for 64 */
	assert_int_equal(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, s[1].mr->rkey, (uintptr_t)s[1].memory);
	ibv_wr_set_sge_list(ex, 3, (struct ibv_sge[3]){0});
	assert_int_equal(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	ibv_wr_set_sge(ex, 0, 0, 0); /* of what? */
	assert_int_equal(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	for (int i = 0; i < 5; i++) /* made for four */
		ibv_wr_rdma_write(ex, s[1].mr->rkey, (uintptr_t)s[1].memory);
	assert_int_equal(ibv_wr_complete(ex), ENOMEM);

	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, s[1].mr->rkey, (uintptr_t)s[1].memory);
	ibv_wr_abort(ex);

	ibv_wr_start(ex);
	assert_int_equal(ibv_wr_complete(ex), 0); /* nothing at all */
	assert_int_equal(ibv_poll_cq(s[0].cq, 1, &wc), 0);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0); /* nothing of it is left, all slots are free */
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_sides, close_sides)

/* What a queue pair that is connected to itself moves to where some of it is now. */
static void memory_may_overlap(void **state)
{
	static const enum ibv_wr_opcode way[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND};
	static const struct {
		uint32_t from, to, length, pieces;
	} rows[] = {
		{0, 8, 64, 1},	  {8, 0, 64, 1},    {0, 1, 61, 1},    {1, 0, 61, 1},	   {0, 8, 4096, 1},
		{8, 0, 4096, 1},  {0, 0, 4096, 1},  {0, 3, 4093, 2},  {3, 0, 4093, 2},	   {0, 2048, 4096, 2},
		{0, 8, 40000, 1}, {8, 0, 40000, 1}, {0, 3, 40000, 2}, {1500, 0, 40000, 2},
	};
	static char expected[MEMORY];
	struct side *s = *state;

	bring(s[0].qp, s[0].qp, IBV_QPS_RTS);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) * 3; i++) {
		uint32_t from = rows[i / 3].from, to = rows[i / 3].to, length = rows[i / 3].length;
		bool reads = way[i % 3] == IBV_WR_RDMA_READ;
		struct ibv_sge here = piece(&s[0], reads ? to : from, length), receive = piece(&s[0], to, length);
		struct ibv_sge two[2] = {here, here};
		struct ibv_recv_wr *bad, rr = {.sg_list = &receive, .num_sge = 1};
		struct ibv_send_wr wr = {
			.sg_list = two,
			.num_sge = rows[i / 3].pieces,
			.opcode = way[i % 3],
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {(uintptr_t)s[0].memory + (reads ? from : to), s[0].mr->rkey},
		};

		if (wr.num_sge == 2) {
			two[0].length = length / 2;
			two[1].addr += length / 2;
			two[1].length -= length / 2;
		}
		for (uint32_t n = 0; n < MEMORY; n++)
			s[0].memory[n] = expected[n] = (char)(n * 7 + n / 256);
		memmove(expected + to, expected + from, length);
		if (way[i % 3] == IBV_WR_SEND) {
			assert_int_equal(ibv_post_recv(s[0].qp, &rr, &bad), 0);
			assert_int_equal(side_send(&s[0], &wr), 0);
			assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
		} else {
			assert_int_equal(side_send(&s[0], &wr), 0);
		}
		assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
		/* what takes several packets or pieces is mixed where it overlaps */
		if (length <= 4096 && wr.num_sge == 1)
			assert_memory_equal(s[0].memory, expected, MEMORY);
		assert_memory_equal(s[0].memory + to + length, expected + to + length, MEMORY - to - length);
	}
}

/* Some adapters refuse that, others do not, nor does rxe; examples have it. */
static void an_atomic_may_have_more_room_than_it_needs(void **state)
{
	static const struct {
		uint32_t length, pieces;
	} rows[] = {{9, 1}, {4096, 1}, {6, 2}, {MEMORY / 2, 2}};
	struct side *s = *state;
	uint64_t *there = (uint64_t *)s[1].memory, old;

	connect_sides(s);
	*there = 5;
	for (uint64_t i = 0; i < 3 * sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t length = rows[i / 3].length;
		struct ibv_sge here[2] = {piece(&s[0], 0, length), piece(&s[0], length, length)};
		struct ibv_send_wr wr = {
			.sg_list = here,
			.num_sge = rows[i / 3].pieces,
			.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.atomic = {(uintptr_t)there, 1, 0, s[1].mr->rkey},
		};
		struct ibv_wc wc;

		memset(s[0].memory, -1, MEMORY);
		assert_int_equal(side_send(&s[0], &wr), 0);
		wc = next(s[0].cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, 8);
		memcpy(&old, s[0].memory, sizeof(old));
		assert_int_equal(old, 5 + i);
		assert_int_equal(*there, 6 + i);
		assert_int_equal(s[0].memory[8], -1);
	}
}

/* It hears its own NAK before it fails, as examples show of what errors look like: the request that was refused says
 * why. */
static void who_asks_itself_is_told_why_not(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		enum ibv_wc_status status, receive;
		uint32_t room;
	} rows[] = {
		{IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, 64},
		{IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, 64},
		{IBV_WR_SEND, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR, 16},
	};
	struct side *s = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_sge here = piece(&s[0], 0, 64), receive = piece(&s[0], 0, rows[i].room);
		struct ibv_recv_wr *bad, rr = {.wr_id = 3, .sg_list = &receive, .num_sge = 1};
		struct ibv_send_wr wr = {
			.wr_id = 1,
			.sg_list = &here,
			.num_sge = 1,
			.opcode = rows[i].opcode,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {(uintptr_t)s[0].memory, s[0].mr->rkey ^ 0x55},
		};
		struct ibv_wc wc, all[4] = {0};

		bring(s[0].qp, s[0].qp, IBV_QPS_RTS);
		assert_int_equal(ibv_post_recv(s[0].qp, &rr, &bad), 0);
		assert_int_equal(side_send(&s[0], &wr), 0);
		wr.wr_id = 2;
		assert_int_equal(side_send(&s[0], &wr), 0);
		for (int k = 0; k < 3; k++) {
			wc = next(s[0].cq);
			all[wc.wr_id] = wc;
		}
		assert_int_equal(all[1].status, rows[i].status);
		assert_int_equal(all[2].status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(all[3].status, rows[i].receive);
		assert_int_equal(ibv_destroy_qp(s[0].qp), 0); /* what is on its way is for no other one */
		s[0].qp = make_qp(s[0].pd, s[0].cq, &(struct ibv_qp_cap){16, 16, 1, 1, 0});
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(posts_need_a_state),
		TEST(the_error_state_flushes_in_order),
		TEST(reset_forgets_everything),
		TEST(a_full_queue_says_so_and_which),
		TEST(an_empty_list_is_no_mistake),
		TEST(requests_are_checked),
		TEST(inline_data_may_change_at_once),
		TEST(a_completion_tells_all),
		TEST(polling_for_many_takes_what_is_there),
		TEST(a_dead_region_is_nobodys),
		TEST(regions_of_another_domain_are_refused),
		TEST(a_zero_based_region_counts_from_zero),
		TEST(memory_may_overlap),
		TEST(an_atomic_may_have_more_room_than_it_needs),
		TEST(who_asks_itself_is_told_why_not),
		TEST(a_resized_queue_keeps_its_completions),
		TEST(an_overrun_queue_is_an_event),
		TEST(an_overrun_may_be_ignored),
		TEST(the_extended_poll_reads_each_field),
		TEST(a_batch_is_built_and_posted),
		TEST(a_batch_with_a_mistake_is_not_posted),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
