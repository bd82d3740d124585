/* SPDX-License-Identifier: BSD-2-Clause */
/* UD through the front: address handles and the way back, QPs that listen everywhere, SQE, the builder. */
#include "verbs/fixture.h"
#include "loop/netns.h"

#include <netinet/ip.h>
#include <string.h>

#include "object/qp.h"

enum {
	QKEY = 0x1234,
	GRH = 40,
};

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static char memory[8192];

static struct ibv_qp *make(uint64_t ops)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {16, 16, 2, 2, 64},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = pd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(context, &a);
}

static int setup(void **state)
{
	assert_non_null(pd = ibv_alloc_pd(context));
	assert_non_null(cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	assert_non_null(mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE));
	assert_non_null(qp = make(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM));
	bring_datagrams(qp, QKEY);
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	return 0;
}

/* To the address of that index, which is this host's. */
static struct ibv_ah *handle(int index)
{
	struct ibv_ah_attr a = {.port_num = 1, .is_global = 1, .grh = {.hop_limit = 64}};

	a.grh.sgid_index = (uint8_t)index;
	assert_int_equal(ibv_query_gid(context, 1, index, &a.grh.dgid), 0);
	return ibv_create_ah(pd, &a);
}

static void post_receive(void)
{
	struct ibv_sge sge = {(uintptr_t)memory, 4096, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

static int post_send(struct ibv_ah *ah, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)memory + 4096, length, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	return ibv_post_send(qp, &wr, &bad);
}

static struct ibv_wc received(void)
{
	struct ibv_wc wc;

	do
		wc = next(cq);
	while (wc.wr_id != 1);
	return wc;
}

static void a_datagram_names_the_way_back(void **state)
{
	int families = netns_has_ipv6() ? 2 : 1;

	for (int index = 0; index < families; index++) { /* IPv4, IPv6 */
		struct ibv_ah *ah = handle(index), *back;
		struct ibv_ah_attr attr;
		union ibv_gid gid;
		struct ibv_wc wc;

		strcpy(memory + 4096, "to myself");
		post_receive();
		assert_int_equal(post_send(ah, 10), 0);
		assert_int_equal(ibv_destroy_ah(ah), 0);
		wc = received();
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wc_flags, IBV_WC_GRH);
		assert_int_equal(wc.byte_len, GRH + 10);
		assert_int_equal(wc.src_qp, qp->qp_num);
		assert_string_equal(memory + GRH, "to myself");
		assert_int_equal(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)memory, &attr), 0);
		assert_int_equal(ibv_query_gid(context, 1, index, &gid), 0);
		assert_memory_equal(&attr.grh.dgid, &gid, sizeof(gid));
		assert_int_equal(attr.grh.sgid_index, index);
		assert_non_null(back = ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)memory, 1));
		post_receive();
		assert_int_equal(post_send(back, 10), 0);
		assert_int_equal(received().byte_len, GRH + 10);
		assert_int_equal(ibv_destroy_ah(back), 0);
	}
}

static void a_datagram_is_no_longer_than_the_ports_mtu(void **state)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS}, now;
	struct ibv_qp_init_attr init;
	struct ibv_ah *ah = handle(0);

	assert_int_equal(post_send(ah, 4096), 0);
	assert_int_equal(next(cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_post_send(qp, &(struct ibv_send_wr){0}, &(struct ibv_send_wr *){0}), EINVAL);
	{
		struct ibv_mr *all = ibv_reg_mr(pd, memory, sizeof(memory), 0);
		struct ibv_sge sge = {(uintptr_t)memory, 4097, all->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

		wr.wr.ud.ah = ah;
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		assert_int_equal(next(cq).status, IBV_WC_LOC_LEN_ERR);
		assert_int_equal(ibv_dereg_mr(all), 0);
	}
	assert_int_equal(ibv_query_qp(qp, &now, IBV_QP_STATE, &init), 0);
	assert_int_equal(now.qp_state, IBV_QPS_SQE);
	assert_int_equal(qp->state, IBV_QPS_SQE); /* since it was asked for */
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
	assert_int_equal(post_send(ah, 1), 0);
	assert_int_equal(next(cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void the_builder_addresses_datagrams(void **state)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_ah *ah = handle(0);
	struct ibv_wc wc;

	post_receive();
	ibv_wr_start(ex);
	ex->wr_id = 2;
	ibv_wr_send_imm(ex, 0x11223344);
	ibv_wr_set_ud_addr(ex, ah, qp->qp_num, QKEY);
	ibv_wr_set_inline_data(ex, "inline", 7);
	assert_int_equal(ibv_wr_complete(ex), 0);
	wc = received();
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x11223344);
	assert_string_equal(memory + GRH, "inline");
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* What an address handle or a QP has bound serves the others that are left. */
static void addresses_stay_bound_while_anybody_needs_them(void **state)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_ah *first = handle(0), *second = handle(0);

	assert_int_equal(ibv_destroy_ah(first), 0);
	assert_int_equal(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
	bring_datagrams(qp, QKEY);
	post_receive();
	assert_int_equal(post_send(second, 8), 0);
	assert_int_equal(received().status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_ah(second), 0);
}

static bool is_near(void)
{
	struct qp *q = (struct qp *)qp;
	bool near;

	lock_take(&q->lock);
	near = q->flow[0].near;
	lock_drop(&q->lock);
	return near;
}

static bool is_answered(void)
{
	struct qp *q = (struct qp *)qp;
	bool answered;

	lock_take(&q->lock);
	answered = q->flow[0].peer == FLOW_HEARD && q->flow[0].told.messages;
	lock_drop(&q->lock);
	return answered;
}

static struct ibv_wc exchange(struct ibv_ah *ah, char grh[GRH])
{
	struct ibv_wc wc;

	post_receive();
	assert_int_equal(post_send(ah, 10), 0);
	wc = received();
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_string_equal(memory + GRH, "to myself");
	memcpy(grh, memory, GRH);
	return wc;
}

/* The first one that a process sends to another goes by udp, as the two have not met; this process is its own local
 * peer. */
static void datagrams_look_the_same_through_shared_memory(void **state)
{
	struct ibv_ah *ah = handle(0);
	char by_udp[GRH], near[GRH];
	struct ibv_wc first, last;

	strcpy(memory + 4096, "to myself");
	assert_false(is_near());
	first = exchange(ah, by_udp);
	do
		last = exchange(ah, near);
	while (!is_near());
	memset(memory, 0xff, GRH);
	last = exchange(ah, near);
	assert_memory_equal(near, by_udp, GRH);
	assert_memory_equal(&last, &first, sizeof(first));
	for (int i = 0; i < 100; i++) /* with questions, and answers */
		exchange(ah, near);
	assert_true(is_answered());
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(datagrams_look_the_same_through_shared_memory), /* before the process knows itself */
		TEST(a_datagram_names_the_way_back),
		TEST(a_datagram_is_no_longer_than_the_ports_mtu),
		TEST(the_builder_addresses_datagrams),
		TEST(addresses_stay_bound_while_anybody_needs_them),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
