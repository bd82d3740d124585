/* SPDX-License-Identifier: BSD-2-Clause */
/* UROCE_KEYS=unlike: a region's lkey does not serve as its rkey, nor the reverse. */
#include "verbs/fixture.h"

enum { LONG = 32 << 10 };

/* Of one request of the first side, which names the second's memory; each key is right or the region's other one. */
static enum ibv_wc_status status_of(enum ibv_wr_opcode opcode, uint32_t length, bool wrong_lkey, bool wrong_rkey)
{
	struct ibv_sge sge, room;
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_recv_wr receive = {.sg_list = &room, .num_sge = 1}, *bad;
	void *fresh = NULL;
	struct ibv_wc wc;
	struct side *s;
	uint32_t rkey;

	assert_int_equal(open_sides(&fresh), 0);
	s = fresh;
	connect_sides(s);
	rkey = wrong_rkey ? s[1].mr->lkey : s[1].mr->rkey;
	sge = piece(&s[0], 0, length);
	sge.lkey = wrong_lkey ? s[0].mr->rkey : s[0].mr->lkey;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)s[1].memory;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)s[1].memory;
		wr.wr.rdma.rkey = rkey;
	}
	memset(s[0].memory, 'a', length);
	memset(s[1].memory, opcode == IBV_WR_RDMA_READ ? 'a' : 'b', length);
	room = piece(&s[1], 0, length);
	assert_int_equal(ibv_post_recv(s[1].qp, &receive, &bad), 0);
	assert_int_equal(side_send(&s[0], &wr), 0);
	wc = next(s[0].cq);
	if (wc.status == IBV_WC_SUCCESS && opcode != IBV_WR_ATOMIC_FETCH_AND_ADD) {
		if (opcode == IBV_WR_SEND || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
		assert_memory_equal(s[0].memory, s[1].memory, length);
	}
	assert_int_equal(close_sides(&fresh), 0);
	return wc.status;
}

static void each_request_takes_its_own_kind_of_key(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t length;
	} rows[] = {
		{IBV_WR_SEND, 8},
		{IBV_WR_SEND, LONG},
		{IBV_WR_RDMA_WRITE, 8},
		{IBV_WR_RDMA_WRITE, LONG},
		{IBV_WR_RDMA_WRITE_WITH_IMM, 8},
		{IBV_WR_RDMA_WRITE_WITH_IMM, LONG},
		{IBV_WR_RDMA_READ, 8},
		{IBV_WR_RDMA_READ, LONG},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 8},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(status_of(rows[i].opcode, rows[i].length, false, false), IBV_WC_SUCCESS);
		assert_int_equal(status_of(rows[i].opcode, rows[i].length, true, false), IBV_WC_LOC_PROT_ERR);
		if (rows[i].opcode != IBV_WR_SEND)
			assert_int_equal(status_of(rows[i].opcode, rows[i].length, false, true), IBV_WC_REM_ACCESS_ERR);
	}
}

static void they_stay_unlike_when_a_region_changes(void **state)
{
	char memory[64];
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), ALL_ACCESS), *import;
	uint32_t lkey;

	assert_non_null(mr);
	assert_int_not_equal(mr->lkey, mr->rkey);
	assert_non_null(import = ibv_import_mr(pd, mr->handle));
	assert_true(import->lkey == mr->lkey && import->rkey == mr->rkey);
	ibv_unimport_mr(import);
	lkey = mr->lkey;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 32, 0), 0);
	assert_int_not_equal(mr->lkey, mr->rkey);
	assert_int_not_equal(mr->lkey, lkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_request_takes_its_own_kind_of_key),
		cmocka_unit_test(they_stay_unlike_when_a_region_changes),
	};

	setenv("UROCE_KEYS", "unlike", 1);
	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
