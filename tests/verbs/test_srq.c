/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues as applications use them. What arrives in which receive is the engine's test. */
#include "verbs/fixture.h"

#include <limits.h>
#include <string.h>

static struct ibv_srq *make_srq(struct ibv_pd *pd, uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = max_wr, .max_sge = max_sge}};
	struct ibv_srq *srq = ibv_create_srq(pd, &a);

	if (srq)
		assert_true(a.attr.max_wr >= max_wr && a.attr.max_sge >= max_sge);
	return srq;
}

static void a_shared_queue_fits_the_limits(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	const struct {
		uint32_t wr, sge;
		int error;
	} rows[] = {
		{0, 0, 0},
		{1, 1, 0},
		{(uint32_t)limits.max_srq_wr, 1, 0},
		{(uint32_t)limits.max_srq_wr + 1, 1, EINVAL},
		{1, (uint32_t)limits.max_srq_sge, 0},
		{1, (uint32_t)limits.max_srq_sge + 1, EINVAL},
		{UINT32_MAX, UINT32_MAX, EINVAL},
	};

	assert_true(limits.device_cap_flags & IBV_DEVICE_SRQ_RESIZE);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_srq *srq;

		errno = 0;
		srq = make_srq(pd, rows[i].wr, rows[i].sge);
		assert_int_equal(srq ? 0 : errno, rows[i].error);
		if (srq)
			assert_int_equal(ibv_destroy_srq(srq), 0);
	}
	assert_errno(ibv_create_srq(NULL, &(struct ibv_srq_init_attr){0}), EINVAL);
	assert_errno(ibv_create_srq(pd, NULL), EINVAL);
	assert_int_equal(ibv_destroy_srq(NULL), EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void there_are_as_many_as_the_device_says(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_srq **srq = calloc((size_t)limits.max_srq, sizeof(*srq));

	for (int i = 0; i < limits.max_srq; i++)
		assert_non_null(srq[i] = make_srq(pd, 1, 1));
	assert_errno(make_srq(pd, 1, 1), ENOMEM);
	for (int i = 0; i < limits.max_srq; i++)
		assert_int_equal(ibv_destroy_srq(srq[i]), 0);
	free(srq);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void it_is_modified_as_asked(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_srq *srq = make_srq(pd, 16, 3);
	uint32_t depth = 16, limit = 0;
	const struct {
		struct ibv_srq_attr attr;
		int mask, error;
	} rows[] = {
		{{0}, 0, 0},
		{{.srq_limit = 17}, IBV_SRQ_LIMIT, EINVAL},
		{{.max_wr = 32}, IBV_SRQ_MAX_WR, 0},
		{{.max_wr = 0}, IBV_SRQ_MAX_WR, EINVAL},
		{{.max_wr = (uint32_t)limits.max_srq_wr}, IBV_SRQ_MAX_WR, 0},
		{{.max_wr = (uint32_t)limits.max_srq_wr + 1}, IBV_SRQ_MAX_WR, EINVAL},
		{{.max_wr = 8, .srq_limit = 13}, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, EINVAL},
		{{.max_wr = 12}, 4, EINVAL},
		{{.max_wr = 8}, IBV_SRQ_MAX_WR, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_srq_attr a = rows[i].attr;

		assert_int_equal(ibv_modify_srq(srq, &a, rows[i].mask), rows[i].error);
		if (!rows[i].error && (rows[i].mask & IBV_SRQ_MAX_WR))
			depth = rows[i].attr.max_wr;
		assert_int_equal(ibv_query_srq(srq, &a), 0);
		assert_int_equal(a.max_wr, depth);
		assert_int_equal(a.max_sge, 3);
		assert_int_equal(a.srq_limit, limit);
	}
	assert_int_equal(ibv_modify_srq(NULL, &(struct ibv_srq_attr){0}, 0), EINVAL);
	assert_int_equal(ibv_modify_srq(srq, NULL, 0), EINVAL);
	assert_int_equal(ibv_query_srq(NULL, &(struct ibv_srq_attr){0}), EINVAL);
	assert_int_equal(ibv_query_srq(srq, NULL), EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static struct ibv_qp *make_user(struct side *s, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr a = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.srq = srq,
		/* ignored with an SRQ, whatever it says */
		.cap = {.max_send_wr = 16, .max_send_sge = 1, .max_recv_wr = UINT_MAX, .max_recv_sge = UINT_MAX},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &a);

	assert_non_null(qp);
	assert_int_equal(a.cap.max_recv_wr, 0);
	assert_int_equal(a.cap.max_recv_sge, 0);
	return qp;
}

static void post(struct side *s, struct ibv_srq *srq, uint64_t wr_id)
{
	struct ibv_sge sge = piece(s, 4096 * wr_id, 4096);
	struct ibv_recv_wr *bad, wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static struct ibv_async_event event(void)
{
	struct ibv_async_event e;

	assert_int_equal(ibv_get_async_event(context, &e), 0);
	return e;
}

/* Two connections into one queue: each message takes the next receive, from either sender. */
static void many_share_it(void **state)
{
	struct side *s = *state;
	struct ibv_srq *srq = make_srq(s[1].pd, 8, 1);
	struct ibv_qp *to[2] = {make_user(&s[1], srq), make_user(&s[1], srq)}, *from[2] = {s[0].qp};
	struct ibv_qp_cap cap = {.max_send_wr = 4, .max_send_sge = 1};
	struct ibv_recv_wr *bad, wr = {0};
	struct ibv_qp_init_attr init;
	struct ibv_async_event e;
	struct ibv_qp_attr attr;

	from[1] = make_qp(s[0].pd, s[0].cq, &cap);
	for (int i = 0; i < 2; i++) {
		bring(to[i], from[i], IBV_QPS_RTS);
		bring(from[i], to[i], IBV_QPS_RTS);
	}
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_post_recv(to[0], &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_query_qp(to[0], &attr, IBV_QP_CAP, &init), 0);
	assert_ptr_equal(init.srq, srq);
	for (uint64_t i = 0; i < 8; i++)
		post(&s[1], srq, i);
	assert_int_equal(ibv_modify_srq(srq, &(struct ibv_srq_attr){.srq_limit = 2}, IBV_SRQ_LIMIT), 0);
	for (uint64_t i = 0; i < 7; i++) {
		struct ibv_sge sge = piece(&s[0], 0, 64);
		struct ibv_send_wr *bad_wr, send = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
		struct ibv_wc wc;

		memset(s[0].memory, (int)(i + 1), 64);
		send.send_flags = IBV_SEND_SIGNALED;
		assert_int_equal(ibv_post_send(from[i % 2], &send, &bad_wr), 0);
		assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
		wc = next(s[1].cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.qp_num, to[i % 2]->qp_num);
		assert_memory_equal(s[1].memory + 4096 * i, s[0].memory, 64);
	}
	e = event();
	while (e.event_type == IBV_EVENT_COMM_EST) {
		ibv_ack_async_event(&e);
		e = event();
	}
	assert_int_equal(e.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(e.element.srq, srq);
	ibv_ack_async_event(&e);

	bring(to[0], from[0], IBV_QPS_ERR);
	e = event();
	assert_int_equal(e.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(e.element.qp, to[0]);
	ibv_ack_async_event(&e);
	assert_int_equal(ibv_destroy_qp(to[0]), 0);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_qp(to[1]), 0);
	assert_int_equal(ibv_destroy_qp(from[1]), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* An event that nobody fetched goes with its queue. */
static void it_takes_its_events_along(void **state)
{
	struct side *s = *state;
	struct ibv_srq *srq = make_srq(s[1].pd, 8, 1), *other = make_srq(s[1].pd, 8, 1);
	struct ibv_async_event e;

	assert_int_equal(ibv_modify_srq(srq, &(struct ibv_srq_attr){.srq_limit = 1}, IBV_SRQ_LIMIT), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_modify_srq(other, &(struct ibv_srq_attr){.srq_limit = 1}, IBV_SRQ_LIMIT), 0);
	e = event();
	assert_int_equal(e.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(e.element.srq, other);
	ibv_ack_async_event(&e);
	assert_int_equal(ibv_destroy_srq(other), 0);
}

/* Its receives are in its own domain, not in that of the QP whose message takes one, as adapters have it. */
static void its_domain_is_its_own(void **state)
{
	struct side *s = *state;
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, s[1].memory, MEMORY, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_srq *srq = make_srq(pd, 8, 2);
	struct ibv_qp *to = make_user(&s[1], srq);
	const struct {
		struct ibv_mr *mr;
		uint32_t length;
		int pieces;
		enum ibv_wc_status sent, received;
	} rows[] = {
		{mr, 64, 1, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
		{mr, 64, 2, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
		{mr, 20000, 1, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
		{mr, 20000, 2, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
		{s[1].mr, 64, 1, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR},
		{s[1].mr, 64, 2, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR},
		{s[1].mr, 20000, 1, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR},
		{s[1].mr, 20000, 2, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR},
	};

	assert_non_null(mr);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t half = rows[i].pieces == 2 ? rows[i].length / 2 : rows[i].length;
		struct ibv_sge from = piece(&s[0], 0, rows[i].length);
		struct ibv_sge into[2] = {{(uintptr_t)s[1].memory, half, rows[i].mr->lkey},
					  {(uintptr_t)s[1].memory + half, half, rows[i].mr->lkey}};
		struct ibv_recv_wr *bad, recv = {.sg_list = into, .num_sge = rows[i].pieces};
		struct ibv_send_wr *bad_wr,
			send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

		bring(to, s[0].qp, IBV_QPS_RTS);
		bring(s[0].qp, to, IBV_QPS_RTS);
		memset(s[0].memory, (int)(i + 1), rows[i].length);
		assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad), 0);
		assert_int_equal(ibv_post_send(s[0].qp, &send, &bad_wr), 0);
		assert_int_equal(next(s[1].cq).status, rows[i].received);
		assert_int_equal(next(s[0].cq).status, rows[i].sent);
		if (rows[i].sent == IBV_WC_SUCCESS)
			assert_memory_equal(s[1].memory, s[0].memory, rows[i].length);
		bring(to, s[0].qp, IBV_QPS_RESET);
		bring(s[0].qp, to, IBV_QPS_RESET);
	}
	assert_int_equal(ibv_destroy_qp(to), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void it_is_of_the_same_context(void **state)
{
	struct side *s = *state;
	struct ibv_context *other = ibv_open_device(context->device);
	struct ibv_pd *pd = ibv_alloc_pd(other);
	struct ibv_srq *srq = make_srq(pd, 1, 1);
	struct ibv_qp_init_attr a = {.send_cq = s->cq, .recv_cq = s->cq, .srq = srq, .qp_type = IBV_QPT_RC};

	assert_errno(ibv_create_qp(s->pd, &a), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(other), 0);
}

int main(void)
{
#define WITH_SIDES(name) cmocka_unit_test_setup_teardown(name, open_sides, close_sides)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shared_queue_fits_the_limits),
		cmocka_unit_test(there_are_as_many_as_the_device_says),
		cmocka_unit_test(it_is_modified_as_asked),
		WITH_SIDES(many_share_it),
		WITH_SIDES(it_takes_its_events_along),
		WITH_SIDES(its_domain_is_its_own),
		WITH_SIDES(it_is_of_the_same_context),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
