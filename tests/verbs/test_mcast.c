/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups, over the loopback interface (IPv4: it has no IPv6 multicast). */
#include "verbs/fixture.h"

#include <string.h>

enum {
	QPS = 3,
	QKEY = 0x11111111,
	LENGTH = 100,
	GRH = 40,
	SLOT = 512, /* bytes of memory for one receive */
	GROUP_QPN = 0xffffff,
};

/* Datagram QPs with a receive each, in RTS. */
struct crowd {
	struct ibv_pd *pd;
	struct ibv_cq *cq[QPS];
	struct ibv_qp *qp[QPS];
	struct ibv_mr *mr;
	char *memory;
};

static union ibv_gid group_number(int n)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [14] = (uint8_t)(n >> 8)}};

	gid.raw[15] = (uint8_t)n;
	return gid;
}

static struct ibv_qp *make_ud(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t depth)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
	};

	return ibv_create_qp(pd, &a);
}

static void receive(struct crowd *c, int i)
{
	struct ibv_sge sge = {(uintptr_t)c->memory + (size_t)SLOT * (size_t)i, SLOT, c->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(c->qp[i], &wr, &bad), 0);
}

static int open_crowd(void **state)
{
	struct crowd *c = calloc(1, sizeof(*c));

	assert_non_null(c->pd = ibv_alloc_pd(context));
	assert_non_null(c->memory = calloc(1, MEMORY));
	assert_non_null(c->mr = ibv_reg_mr(c->pd, c->memory, MEMORY, IBV_ACCESS_LOCAL_WRITE));
	for (int i = 0; i < QPS; i++) {
		assert_non_null(c->cq[i] = ibv_create_cq(context, 16, NULL, NULL, 0));
		assert_non_null(c->qp[i] = make_ud(c->pd, c->cq[i], 8));
		bring_datagrams(c->qp[i], QKEY);
		receive(c, i);
	}
	*state = c;
	return 0;
}

static int close_crowd(void **state)
{
	struct crowd *c = *state;

	for (int i = 0; i < QPS; i++) {
		assert_int_equal(ibv_destroy_qp(c->qp[i]), 0);
		assert_int_equal(ibv_destroy_cq(c->cq[i]), 0);
	}
	assert_int_equal(ibv_dereg_mr(c->mr), 0);
	assert_int_equal(ibv_dealloc_pd(c->pd), 0);
	free(c->memory);
	free(c);
	return 0;
}

/* From QP 0 to a group or a QP; returns when it is sent. */
static void send_to(struct crowd *c, const union ibv_gid *gid, uint32_t qpn, uint32_t qkey, char what)
{
	struct ibv_ah_attr av = {.port_num = 1, .is_global = 1, .grh = {.dgid = *gid}};
	struct ibv_sge sge = {(uintptr_t)c->memory + MEMORY - LENGTH, LENGTH, c->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_ah *ah = ibv_create_ah(c->pd, &av);

	assert_non_null(ah);
	memset(c->memory + MEMORY - LENGTH, what, LENGTH);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	assert_int_equal(ibv_post_send(c->qp[0], &wr, &bad), 0);
	for (;;) { /* its own copy may come first */
		struct ibv_wc wc = next(c->cq[0]);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_SEND)
			break;
		receive(c, 0);
	}
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* What a QP gets next. */
static void expect_from_group(struct crowd *c, int i, const union ibv_gid *gid, char what)
{
	const char *at = c->memory + (size_t)SLOT * (size_t)i;
	struct ibv_wc wc = next(c->cq[i]);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.qp_num, c->qp[i]->qp_num);
	assert_int_equal(wc.src_qp, c->qp[0]->qp_num);
	assert_int_equal(wc.byte_len, GRH + LENGTH);
	assert_true(wc.wc_flags & IBV_WC_GRH);
	assert_memory_equal(at + 36, gid->raw + 12, 4); /* where the IPv4 header says to whom */
	assert_memory_equal(at + GRH, c->memory + MEMORY - LENGTH, LENGTH);
	assert_int_equal(at[GRH], what);
	receive(c, i);
}

/* A datagram to that QP alone, which it must get next: so nothing else has come before it. */
static void expect_nothing_more(struct crowd *c, int i)
{
	union ibv_gid own;

	assert_int_equal(ibv_query_gid(context, 1, 0, &own), 0);
	send_to(c, &own, c->qp[i]->qp_num, QKEY, 'u');
	expect_from_group(c, i, &own, 'u');
}

static void every_member_gets_one_copy(void **state)
{
	struct crowd *c = *state;
	union ibv_gid group = group_number(1), written = group;

	written.raw[0] = 0xff; /* ff0e::ffff:239.1.0.1 */
	written.raw[1] = 0x0e;
	assert_int_equal(ibv_attach_mcast(c->qp[1], &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(c->qp[2], &written, 0xc000), 0);
	assert_int_equal(ibv_attach_mcast(c->qp[2], &group, 0), 0); /* again: it is in it already */
	for (int round = 0; round < 3; round++) {
		send_to(c, round == 1 ? &written : &group, GROUP_QPN, QKEY, 'a');
		expect_from_group(c, 1, &group, 'a');
		expect_from_group(c, 2, &group, 'a');
		expect_nothing_more(c, 1);
		expect_nothing_more(c, 2);
	}

	assert_int_equal(ibv_detach_mcast(c->qp[1], &group, 0), 0);
	send_to(c, &group, GROUP_QPN, QKEY, 'b');
	expect_from_group(c, 2, &group, 'b');
	expect_nothing_more(c, 1);
	assert_int_equal(ibv_detach_mcast(c->qp[2], &group, 0), 0);
	send_to(c, &group, GROUP_QPN, QKEY, 'c');
	expect_nothing_more(c, 2);
}

static void the_sender_is_a_member_like_others(void **state)
{
	struct crowd *c = *state;
	union ibv_gid group = group_number(2);

	assert_int_equal(ibv_attach_mcast(c->qp[0], &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(c->qp[1], &group, 0), 0);
	assert_int_equal(ibv_destroy_qp(c->qp[0]), EBUSY);
	send_to(c, &group, GROUP_QPN, QKEY, 'a');
	expect_from_group(c, 1, &group, 'a');
	assert_int_equal(ibv_detach_mcast(c->qp[0], &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(c->qp[1], &group, 0), 0);
}

/* mckey -l */
static void a_sender_need_not_hear_itself(void **state)
{
	struct crowd *c = *state;
	union ibv_gid group = group_number(6);
	struct ibv_qp_init_attr_ex a = {
		.send_cq = c->cq[0],
		.recv_cq = c->cq[2],
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = c->pd,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	};
	struct ibv_qp *qp[QPS], *deaf = ibv_create_qp_ex(context, &a);

	memcpy(qp, c->qp, sizeof(qp));
	assert_non_null(deaf);
	bring_datagrams(deaf, QKEY);
	assert_int_equal(ibv_attach_mcast(deaf, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(c->qp[1], &group, 0), 0);
	c->qp[0] = c->qp[2] = deaf;
	receive(c, 2);
	send_to(c, &group, GROUP_QPN, QKEY, 'a');
	expect_from_group(c, 1, &group, 'a');
	expect_nothing_more(c, 2);

	c->qp[0] = qp[0]; /* but others */
	send_to(c, &group, GROUP_QPN, QKEY, 'b');
	expect_from_group(c, 1, &group, 'b');
	expect_from_group(c, 2, &group, 'b');
	assert_int_equal(ibv_detach_mcast(deaf, &group, 0), 0);
	assert_int_equal(ibv_destroy_qp(deaf), 0);
	assert_int_equal(ibv_detach_mcast(c->qp[1], &group, 0), 0);
	c->qp[2] = qp[2];

	a.qp_type = IBV_QPT_RC;
	errno = 0;
	assert_null(ibv_create_qp_ex(context, &a));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void what_is_not_for_it_is_dropped(void **state)
{
	struct crowd *c = *state;
	union ibv_gid group = group_number(3), other = group_number(4);

	assert_int_equal(ibv_attach_mcast(c->qp[1], &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(c->qp[2], &other, 0), 0);
	send_to(c, &group, GROUP_QPN, QKEY + 1, 'k');	 /* the wrong Q_Key */
	send_to(c, &group, c->qp[1]->qp_num, QKEY, 'q'); /* not the QPN of groups */
	send_to(c, &other, GROUP_QPN, QKEY, 'o');
	expect_from_group(c, 2, &other, 'o');
	expect_nothing_more(c, 1);
	assert_int_equal(ibv_detach_mcast(c->qp[1], &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(c->qp[2], &other, 0), 0);
}

static void mistakes_are_told(void **state)
{
	struct crowd *c = *state;
	struct ibv_qp_cap cap = {.max_send_wr = 1, .max_recv_wr = 1};
	struct ibv_qp *rc = make_qp(c->pd, c->cq[0], &cap);
	union ibv_gid group = group_number(5), unicast;

	assert_int_equal(ibv_query_gid(context, 1, 0, &unicast), 0);
	assert_int_equal(ibv_attach_mcast(NULL, &group, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(c->qp[0], NULL, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(c->qp[0], &unicast, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(rc, &group, 0), EINVAL);
	assert_int_equal(ibv_detach_mcast(c->qp[0], &group, 0), EINVAL);
	assert_int_equal(ibv_detach_mcast(NULL, &group, 0), EINVAL);
	assert_int_equal(ibv_destroy_qp(rc), 0);
}

static void there_are_as_many_as_the_device_says(void **state)
{
	struct crowd *c = *state;
	struct ibv_qp **qp = calloc((size_t)limits.max_mcast_qp_attach + 1, sizeof(*qp));
	union ibv_gid group;
	int n;

	for (n = 0; n < limits.max_mcast_grp; n++) {
		group = group_number(n);
		assert_int_equal(ibv_attach_mcast(c->qp[0], &group, 0), 0);
	}
	group = group_number(n);
	assert_int_equal(ibv_attach_mcast(c->qp[0], &group, 0), ENOMEM);
	while (n-- > 0) {
		group = group_number(n);
		assert_int_equal(ibv_detach_mcast(c->qp[0], &group, 0), 0);
	}

	for (n = 0; n <= limits.max_mcast_qp_attach; n++) {
		assert_non_null(qp[n] = make_ud(c->pd, c->cq[0], 1));
		assert_int_equal(ibv_attach_mcast(qp[n], &group, 0), n < limits.max_mcast_qp_attach ? 0 : ENOMEM);
	}
	for (n = 0; n <= limits.max_mcast_qp_attach; n++) {
		if (n < limits.max_mcast_qp_attach)
			assert_int_equal(ibv_detach_mcast(qp[n], &group, 0), 0);
		assert_int_equal(ibv_destroy_qp(qp[n]), 0);
	}
	free(qp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_member_gets_one_copy, open_crowd, close_crowd),
		cmocka_unit_test_setup_teardown(the_sender_is_a_member_like_others, open_crowd, close_crowd),
		cmocka_unit_test_setup_teardown(a_sender_need_not_hear_itself, open_crowd, close_crowd),
		cmocka_unit_test_setup_teardown(what_is_not_for_it_is_dropped, open_crowd, close_crowd),
		cmocka_unit_test_setup_teardown(mistakes_are_told, open_crowd, close_crowd),
		cmocka_unit_test_setup_teardown(there_are_as_many_as_the_device_says, open_crowd, close_crowd),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
