/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows as applications use them. The rules of binding are the engine's test. */
#include "verbs/fixture.h"

#include <string.h>

static struct ibv_mr *bindable(struct side *s)
{
	struct ibv_mr *mr = ibv_reg_mr(s->pd, s->memory, MEMORY, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);

	assert_non_null(mr);
	return mr;
}

/* A WRITE of a word by that key. */
static enum ibv_wc_status write_by(struct side *s, uint32_t rkey, uint64_t address)
{
	struct ibv_sge sge = piece(&s[0], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {address, rkey}};

	assert_int_equal(side_send(&s[0], &wr), 0);
	return next(s[0].cq).status;
}

static void windows_are_made_and_counted(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	const unsigned flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;

	assert_int_equal(limits.device_cap_flags & flags, flags);
	assert_non_null(one);
	assert_non_null(two);
	assert_int_equal(one->type, IBV_MW_TYPE_1);
	assert_int_equal(two->type, IBV_MW_TYPE_2);
	assert_ptr_equal(one->pd, pd);
	assert_ptr_equal(one->context, context);
	assert_true(one->rkey >> 8 != two->rkey >> 8);
	assert_errno(ibv_alloc_mw(pd, 0), EINVAL);
	assert_errno(ibv_alloc_mw(pd, 3), EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_mw(one), 0);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_mw(two), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void there_are_as_many_as_the_device_says(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mw **mw = calloc((size_t)limits.max_mw, sizeof(*mw));

	for (int i = 0; i < limits.max_mw; i++)
		assert_non_null(mw[i] = ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	assert_errno(ibv_alloc_mw(pd, IBV_MW_TYPE_1), ENOMEM);
	for (int i = 0; i < limits.max_mw; i++)
		assert_int_equal(ibv_dealloc_mw(mw[i]), 0);
	free(mw);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static int bind(struct side *s, struct ibv_mw *mw, struct ibv_mr *mr, uint64_t length, unsigned access)
{
	struct ibv_mw_bind b = {
		.wr_id = 7,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {mr, mr ? (uintptr_t)s->memory : 0, length, access},
	};

	return ibv_bind_mw(s->qp, mw, &b);
}

static void type_1_is_bound_by_its_own_call(void **state)
{
	struct side *s = *state;
	struct ibv_mw *mw = ibv_alloc_mw(s[1].pd, IBV_MW_TYPE_1);
	struct ibv_mr *mr = bindable(&s[1]);
	uint32_t unbound = mw->rkey;
	struct ibv_wc wc;

	connect_sides(s);
	assert_int_equal(bind(&s[1], mw, mr, 64, IBV_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(mw->rkey, ibv_inc_rkey(unbound)); /* at once */
	wc = next(s[1].cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
	assert_int_equal(wc.wr_id, 7);
	strcpy(s[0].memory, "through");
	assert_int_equal(write_by(s, mw->rkey, (uintptr_t)s[1].memory), IBV_WC_SUCCESS);
	assert_string_equal(s[1].memory, "through");
	assert_int_equal(ibv_dereg_mr(mr), EBUSY);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	assert_int_equal(bind(&s[1], mw, NULL, 0, 0), 0);
	assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(write_by(s, ibv_inc_rkey(unbound), (uintptr_t)s[1].memory), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void a_bind_is_refused_at_once(void **state)
{
	struct side *s = *state;
	struct ibv_mw *one = ibv_alloc_mw(s[0].pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(s[0].pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr = bindable(&s[0]), *foreign = bindable(&s[1]);
	uint32_t key = one->rkey;

	assert_int_equal(bind(&s[0], one, mr, 8, 0), EINVAL); /* in INIT */
	connect_sides(s);
	assert_int_equal(bind(&s[0], two, mr, 8, 0), EINVAL);
	assert_int_equal(bind(&s[0], one, NULL, 8, 0), EINVAL);
	assert_int_equal(bind(&s[0], one, foreign, 8, 0), EPERM);
	assert_int_equal(one->rkey, key);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dereg_mr(foreign), 0);
	assert_int_equal(ibv_dealloc_mw(one), 0);
	assert_int_equal(ibv_dealloc_mw(two), 0);
}

/* Type 2 by the posting functions: bound, its key sent along, and invalidated by the answer. */
static void type_2_is_lent_and_given_back(void **state)
{
	struct side *s = *state;
	struct ibv_mw *mw = ibv_alloc_mw(s[1].pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr = bindable(&s[1]);
	uint32_t key = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr bind =
				   {
					   .opcode = IBV_WR_BIND_MW,
					   .send_flags = IBV_SEND_SIGNALED,
					   .bind_mw = {mw,
						       key,
						       {mr, (uintptr_t)s[1].memory + 16, 8, IBV_ACCESS_REMOTE_WRITE}},
				   },
			   back = {.opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;

	connect_sides(s);
	bind.bind_mw.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	assert_int_equal(side_send(&s[1], &bind), 0);
	assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
	strcpy(s[0].memory, "zero");
	assert_int_equal(write_by(s, key, 0), IBV_WC_SUCCESS);
	assert_string_equal(s[1].memory + 16, "zero");
	assert_int_equal(side_receive(&s[1], 3), 0);
	back.invalidate_rkey = key;
	assert_int_equal(side_send(&s[0], &back), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	wc = next(s[1].cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, key);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(write_by(s, key, 0), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void the_builder_binds_and_invalidates(void **state)
{
	struct side *s = *state;
	struct ibv_qp_init_attr_ex a = {
		.send_cq = s[1].cq,
		.recv_cq = s[1].cq,
		.cap = {.max_send_wr = 4},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = s[1].pd,
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &a);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_mw *mw = ibv_alloc_mw(s[1].pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr = bindable(&s[1]);
	struct ibv_mw_bind_info info = {mr, (uintptr_t)s[1].memory, 8, IBV_ACCESS_REMOTE_WRITE};
	uint32_t key = ibv_inc_rkey(mw->rkey);

	bring(qp, s[0].qp, IBV_QPS_RTS);
	bring(s[0].qp, qp, IBV_QPS_RTS);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex, mw, key, &info);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(next(s[1].cq).opcode, IBV_WC_BIND_MW);
	assert_int_equal(write_by(s, key, (uintptr_t)s[1].memory), IBV_WC_SUCCESS);
	ibv_wr_start(ex);
	ex->wr_id = 2;
	ibv_wr_local_inv(ex, key);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(next(s[1].cq).opcode, IBV_WC_LOCAL_INV);
	assert_int_equal(write_by(s, key, (uintptr_t)s[1].memory), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

int main(void)
{
#define WITH_SIDES(name) cmocka_unit_test_setup_teardown(name, open_sides, close_sides)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_are_made_and_counted), cmocka_unit_test(there_are_as_many_as_the_device_says),
		WITH_SIDES(type_1_is_bound_by_its_own_call),	WITH_SIDES(a_bind_is_refused_at_once),
		WITH_SIDES(type_2_is_lent_and_given_back),	WITH_SIDES(the_builder_binds_and_invalidates),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
