/* SPDX-License-Identifier: BSD-2-Clause */
/* What may be created: the limits that the device tells, and one more than that; what cannot be destroyed
 * yet. */
#include <sys/wait.h>
#include <unistd.h>

#include "verbs/fixture.h"

static struct ibv_pd *pd;
static struct ibv_cq *cq;

static int open_all(void **state)
{
	if (open_context(state))
		return -1;
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	return pd && cq ? 0 : -1;
}

static int close_all(void **state)
{
	return ibv_destroy_cq(cq) ?: ibv_dealloc_pd(pd) ?: close_context(state);
}

static void a_queue_pair_fits_the_limits(void **state)
{
	enum { MAX_INLINE = 512 };
	const struct {
		struct ibv_qp_cap cap;
		int error;
	} rows[] = {
		{{0}, 0},
		{{.max_send_wr = 1}, 0},
		{{.max_send_wr = limits.max_qp_wr}, 0},
		{{.max_send_wr = limits.max_qp_wr + 1}, EINVAL},
		{{.max_recv_wr = limits.max_qp_wr}, 0},
		{{.max_recv_wr = limits.max_qp_wr + 1}, EINVAL},
		{{.max_send_sge = limits.max_sge}, 0},
		{{.max_send_sge = limits.max_sge + 1}, EINVAL},
		{{.max_recv_sge = limits.max_sge}, 0},
		{{.max_recv_sge = limits.max_sge + 1}, EINVAL},
		{{.max_inline_data = MAX_INLINE}, 0},
		{{.max_inline_data = MAX_INLINE + 1}, EINVAL},
		{{.max_send_wr = UINT32_MAX, .max_recv_wr = UINT32_MAX}, EINVAL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp *qp;

		errno = 0;
		qp = make_qp(pd, cq, &rows[i].cap);
		assert_int_equal(qp ? 0 : errno, rows[i].error);
		if (qp)
			assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

/* A stranger, or a peer that knows one, cannot guess the others. In order, all differences would be 1; at random
 * the sum of 64 differences is that small once in 10^30 runs. */
static void numbers_of_queue_pairs_are_random(void **state)
{
	enum { COUNT = 64 };
	struct ibv_qp *qp[COUNT];
	uint64_t apart = 0;

	for (int i = 0; i < COUNT; i++) {
		qp[i] = make_qp(pd, cq, &(struct ibv_qp_cap){0});
		assert_non_null(qp[i]);
		assert_int_equal(qp[i]->qp_num >> 13, qp[0]->qp_num >> 13); /* the process's slot */
		if (i)
			apart += (uint64_t)labs((long)qp[i]->qp_num - (long)qp[i - 1]->qp_num);
	}
	assert_true(apart > (uint64_t)COUNT * 1000);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
}

/* Of processes that do the same: their first keys, which nobody can know beforehand. */
static void keys_of_processes_are_random(void **state)
{
	enum { PROCESSES = 8 };
	static char memory[64];
	uint32_t key[PROCESSES], differ = 0;
	int tell[2], status;

	assert_int_equal(pipe(tell), 0);
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			struct ibv_context *own = ibv_open_device(context->device);
			struct ibv_pd *its = own ? ibv_alloc_pd(own) : NULL;
			struct ibv_mr *mr = its ? ibv_reg_mr(its, memory, sizeof(memory), 0) : NULL;

			_exit(!mr || write(tell[1], &mr->rkey, sizeof(mr->rkey)) != sizeof(mr->rkey));
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_int_equal(read(tell[0], &key[i], sizeof(key[i])), sizeof(key[i]));
		differ += i ? (uint32_t)__builtin_popcount(key[i] ^ key[i - 1]) : 0;
	}
	close(tell[0]);
	close(tell[1]);
	assert_in_range(differ, 60, 164); /* 112 of 224 bits; outside once in 10^11 runs */
}

static void a_queue_pair_says_what_it_got(void **state)
{
	struct ibv_qp_cap want = {
		.max_send_wr = 10, .max_recv_wr = 11, .max_send_sge = 3, .max_recv_sge = 4, .max_inline_data = 50};
	struct ibv_qp_init_attr init, a = {.qp_context = &want,
					   .send_cq = cq,
					   .recv_cq = cq,
					   .cap = want,
					   .qp_type = IBV_QPT_RC,
					   .sq_sig_all = 1};
	struct ibv_qp *qp = ibv_create_qp(pd, &a);
	struct ibv_qp_attr attr;

	assert_non_null(qp);
	assert_true(a.cap.max_send_wr >= 10 && a.cap.max_recv_wr >= 11 && a.cap.max_send_sge >= 3);
	assert_true(a.cap.max_recv_sge >= 4 && a.cap.max_inline_data >= 50);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), 0);
	assert_memory_equal(&init.cap, &a.cap, sizeof(a.cap)); /* UCX relies on it */
	assert_memory_equal(&attr.cap, &a.cap, sizeof(a.cap));
	assert_int_equal(attr.qp_state, IBV_QPS_RESET);
	assert_ptr_equal(init.qp_context, &want);
	assert_ptr_equal(init.send_cq, cq);
	assert_int_equal(init.sq_sig_all, 1);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_null(ibv_qp_to_qp_ex(qp));
	assert_int_equal(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void queue_pairs_of_other_kinds(void **state)
{
	const struct {
		enum ibv_qp_type type;
		int error;
	} rows[] = {
		{IBV_QPT_RC, 0}, {IBV_QPT_XRC_SEND, 0}, {IBV_QPT_DRIVER, EOPNOTSUPP}, {0, EINVAL}, {77, EINVAL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .qp_type = rows[i].type};
		struct ibv_qp *qp;

		errno = 0;
		qp = ibv_create_qp(pd, &a);
		assert_int_equal(qp ? 0 : errno, rows[i].error);
		if (qp)
			assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

static void a_queue_pair_needs_its_parts(void **state)
{
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
	struct ibv_qp_init_attr_ex ex = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};

	assert_errno(ibv_create_qp(NULL, &a), EINVAL);
	assert_errno(ibv_create_qp(pd, NULL), EINVAL);
	a.recv_cq = NULL;
	assert_errno(ibv_create_qp(pd, &a), EINVAL);
	a.recv_cq = cq;
	a.send_cq = NULL;
	assert_errno(ibv_create_qp(pd, &a), EINVAL);

	ex.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS; /* and no PD */
	ex.send_ops_flags = IBV_QP_EX_WITH_SEND;
	assert_errno(ibv_create_qp_ex(context, &ex), EINVAL);
	ex.comp_mask |= IBV_QP_INIT_ATTR_PD;
	ex.pd = pd;
	ex.send_ops_flags = IBV_QP_EX_WITH_TSO;
	assert_errno(ibv_create_qp_ex(context, &ex), EOPNOTSUPP);
	ex.send_ops_flags = IBV_QP_EX_WITH_SEND;
	ex.comp_mask |= IBV_QP_INIT_ATTR_IND_TABLE;
	assert_errno(ibv_create_qp_ex(context, &ex), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_qp(NULL), EINVAL);
}

static void parts_in_use_stay(void **state)
{
	struct ibv_pd *p = ibv_alloc_pd(context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *c = ibv_create_cq(context, 4, NULL, channel, 0);
	struct ibv_qp *qp = make_qp(p, c, &(struct ibv_qp_cap){.max_send_wr = 1});

	assert_non_null(qp);
	assert_int_equal(ibv_dealloc_pd(p), EBUSY);
	assert_int_equal(ibv_destroy_cq(c), EBUSY);
	assert_int_equal(ibv_destroy_comp_channel(channel), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), EBUSY);
	assert_int_equal(ibv_destroy_cq(c), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	assert_int_equal(ibv_dealloc_pd(p), 0);
}

static void a_completion_queue_fits_the_limits(void **state)
{
	const struct {
		int cqe, vector, error;
	} rows[] = {
		{1, 0, 0},
		{limits.max_cqe, 0, 0},
		{limits.max_cqe + 1, 0, EINVAL},
		{0, 0, EINVAL},
		{-1, 0, EINVAL},
		{INT32_MIN, 0, EINVAL},
		{16, context->num_comp_vectors - 1, 0},
		{16, context->num_comp_vectors, EINVAL},
		{16, -1, EINVAL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_cq *c;

		errno = 0;
		c = ibv_create_cq(context, rows[i].cqe, NULL, NULL, rows[i].vector);
		assert_int_equal(c ? 0 : errno, rows[i].error);
		if (c) {
			assert_true(c->cqe >= rows[i].cqe);
			assert_int_equal(ibv_destroy_cq(c), 0);
		}
	}
	assert_int_equal(ibv_destroy_cq(NULL), EINVAL);
	assert_errno(ibv_create_cq(NULL, 1, NULL, NULL, 0), EINVAL);
}

static void an_extended_completion_queue_says_no(void **state)
{
	struct ibv_cq_init_attr_ex a = {.cqe = 4, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(context, &a);

	assert_non_null(ex);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
	a.wc_flags = IBV_CREATE_CQ_SUP_WC_FLAGS; /* all that a program may ask for that looks at the header alone */
	ex = ibv_create_cq_ex(context, &a);
	assert_non_null(ex);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
	a.wc_flags = 1ull << 40;
	assert_errno(ibv_create_cq_ex(context, &a), EOPNOTSUPP);
	a.wc_flags = 0;
	a.comp_mask = 1 << 7;
	assert_errno(ibv_create_cq_ex(context, &a), EOPNOTSUPP);
	a.comp_mask = 0;
	a.cqe = limits.max_cqe + 1;
	assert_errno(ibv_create_cq_ex(context, &a), EINVAL);
}

static void a_completion_queue_is_resized(void **state)
{
	struct ibv_cq *c = ibv_create_cq(context, 4, NULL, NULL, 0);
	const struct {
		int cqe, error;
	} rows[] = {
		{100, 0}, {3, 0}, {0, EINVAL}, {-5, EINVAL}, {limits.max_cqe + 1, EINVAL}, {limits.max_cqe, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int before = c->cqe;

		assert_int_equal(ibv_resize_cq(c, rows[i].cqe), rows[i].error);
		assert_true(rows[i].error ? c->cqe == before : c->cqe >= rows[i].cqe);
	}
	assert_int_equal(ibv_destroy_cq(c), 0);
}

static int depth_of_cq(int asked)
{
	struct ibv_cq *c = ibv_create_cq(context, asked, NULL, NULL, 0);
	int granted = c->cqe;

	assert_int_equal(ibv_resize_cq(c, asked), 0);
	assert_int_equal(c->cqe, granted);
	assert_int_equal(ibv_destroy_cq(c), 0);
	return granted;
}

static int depth_of_sq(int asked)
{
	struct ibv_qp *qp = make_qp(pd, cq, &(struct ibv_qp_cap){.max_send_wr = (uint32_t)asked});
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(init.cap.max_recv_wr, 0);
	return (int)init.cap.max_send_wr;
}

static int depth_of_rq(int asked)
{
	struct ibv_qp *qp = make_qp(pd, cq, &(struct ibv_qp_cap){.max_recv_wr = (uint32_t)asked});
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	return (int)attr.cap.max_recv_wr;
}

static int depth_of_srq(int asked)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = (uint32_t)asked, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &a);
	struct ibv_srq_attr got;

	assert_int_equal(ibv_query_srq(srq, &got), 0);
	assert_int_equal(got.max_wr, a.attr.max_wr);
	assert_int_equal(ibv_modify_srq(srq, &(struct ibv_srq_attr){.max_wr = 2 * (uint32_t)asked}, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(ibv_query_srq(srq, &got), 0);
	assert_int_equal(got.max_wr, 2 * a.attr.max_wr);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	return (int)a.attr.max_wr;
}

/* Programs count on more than they asked for, as adapters round up. */
static void depths_are_rounded_up(void **state)
{
	static int (*const depth[])(int asked) = {depth_of_cq, depth_of_sq, depth_of_rq, depth_of_srq};
	static const struct {
		int asked, granted;
	} row[] = {{1, 1}, {2, 2}, {3, 4}, {100, 128}, {128, 128}, {129, 256}, {8193, 16384}};

	for (size_t i = 0; i < sizeof(depth) / sizeof(depth[0]); i++)
		for (size_t n = 0; n < sizeof(row) / sizeof(row[0]); n++)
			assert_int_equal(depth[i](row[n].asked), row[n].granted);
}

static void many_of_each(void **state)
{
	enum { MANY = 1000 };
	struct ibv_pd *pds[MANY];
	struct ibv_cq *cqs[MANY];
	struct ibv_qp *qps[MANY];

	for (int i = 0; i < MANY; i++) {
		assert_non_null(pds[i] = ibv_alloc_pd(context));
		assert_non_null(cqs[i] = ibv_create_cq(context, 4, NULL, NULL, 0));
		assert_non_null(qps[i] = make_qp(pds[i], cqs[i], &(struct ibv_qp_cap){.max_send_wr = 4}));
		assert_true(i == 0 || qps[i]->qp_num != qps[i - 1]->qp_num);
	}
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
		assert_int_equal(ibv_destroy_cq(cqs[i]), 0);
		assert_int_equal(ibv_dealloc_pd(pds[i]), 0);
	}
}

static void the_device_tells_the_same_twice(void **state)
{
	struct ibv_device_attr_ex ex;
	struct ibv_query_device_ex_input input = {.comp_mask = 1};

	assert_int_equal(ibv_query_device_ex(context, NULL, &ex), 0);
	assert_memory_equal(&ex.orig_attr, &limits, sizeof(limits));
	assert_int_equal(ibv_query_device_ex(context, &input, &ex), EINVAL);
}

static void contexts_close_with_things_in_them(void **state)
{
	struct ibv_context *other = ibv_open_device(context->device);
	struct ibv_pd *p = ibv_alloc_pd(other);

	assert_errno(make_qp(p, cq, &(struct ibv_qp_cap){.max_send_wr = 1}), EINVAL); /* a CQ of another context */
	assert_int_equal(ibv_close_device(other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_pair_fits_the_limits),
		cmocka_unit_test(numbers_of_queue_pairs_are_random),
		cmocka_unit_test(keys_of_processes_are_random),
		cmocka_unit_test(a_queue_pair_says_what_it_got),
		cmocka_unit_test(queue_pairs_of_other_kinds),
		cmocka_unit_test(a_queue_pair_needs_its_parts),
		cmocka_unit_test(parts_in_use_stay),
		cmocka_unit_test(a_completion_queue_fits_the_limits),
		cmocka_unit_test(an_extended_completion_queue_says_no),
		cmocka_unit_test(a_completion_queue_is_resized),
		cmocka_unit_test(depths_are_rounded_up),
		cmocka_unit_test(many_of_each),
		cmocka_unit_test(the_device_tells_the_same_twice),
		cmocka_unit_test(contexts_close_with_things_in_them),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
