/* SPDX-License-Identifier: BSD-2-Clause */
/* Every way to post, with lists of SGEs that are none: EINVAL with *bad set, whatever the opcode, the flags, the kind
 * of the queue pair and the lane that an idle one takes to another process; and what is posted next is sent. */
#include "verbs/fixture.h"

#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "object/qp.h"

enum { QKEY = 0x1234, SGES = 2, DEPTH = 64, LENGTH = 64, BUFFER = 4096 };

static const struct {
	enum ibv_qp_type type;
	bool is_self; /* connected to itself */
	int lane;     /* that it takes when it is idle; -1: any */
} kinds[] = {
	{IBV_QPT_RC, false, LANE_MEMORY},
	{IBV_QPT_UD, false, LANE_DATAGRAM},
	{IBV_QPT_UC, false, -1},
	{IBV_QPT_RC, true, LANE_MEMORY},
};
#define KINDS ARRAY_SIZE(kinds)

struct end {
	struct ibv_pd *pd;
	struct ibv_cq *cq, *recv_cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[KINDS];
	char memory[2][BUFFER];
};

static struct end end;
static struct ibv_ah *ah;
static uint32_t far[KINDS];  /* the other process's queue pairs */
static struct ibv_sge *list; /* SGES + 1, and nothing behind them can be read */
static int tell = -1;
static pid_t child;

static void open_end(struct end *e)
{
	e->pd = ibv_alloc_pd(context);
	e->cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	e->recv_cq = ibv_create_cq(context, KINDS * DEPTH, NULL, NULL, 0);
	e->mr = ibv_reg_mr(e->pd, e->memory, sizeof(e->memory), ALL_ACCESS);
	for (size_t i = 0; i < KINDS; i++) {
		struct ibv_qp_init_attr_ex a = {
			.send_cq = e->cq,
			.recv_cq = e->recv_cq,
			.cap = {DEPTH, DEPTH, SGES, SGES, LENGTH},
			.qp_type = kinds[i].type,
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.pd = e->pd,
			.send_ops_flags = IBV_QP_EX_WITH_SEND,
		};

		assert_non_null(e->qp[i] = ibv_create_qp_ex(context, &a));
	}
}

static int receive_on(struct end *e, struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)e->memory[1], BUFFER, e->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

static void connect_to(struct end *e, const uint32_t peer[KINDS])
{
	for (size_t i = 0; i < KINDS; i++) {
		struct ibv_qp *qp = e->qp[i], to = {.qp_num = kinds[i].is_self ? qp->qp_num : peer[i]};
		struct ibv_qp_attr a = attributes(IBV_QPS_INIT, &to);

		if (kinds[i].type == IBV_QPT_UD) {
			bring_datagrams(qp, QKEY);
		} else {
			a.rq_psn = 0;
			assert_int_equal(ibv_modify_qp(qp, &a, INIT_MASK), 0);
			a.qp_state = IBV_QPS_RTR;
			assert_int_equal(ibv_modify_qp(qp, &a,
						       kinds[i].type == IBV_QPT_RC
							       ? RTR_MASK
							       : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
									 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
					 0);
			a.qp_state = IBV_QPS_RTS;
			assert_int_equal(
				ibv_modify_qp(qp, &a,
					      kinds[i].type == IBV_QPT_RC ? RTS_MASK : IBV_QP_STATE | IBV_QP_SQ_PSN),
				0);
		}
		for (int n = 0; n < DEPTH / 2; n++)
			assert_int_equal(receive_on(e, qp), 0);
	}
}

static void repost(struct end *e)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(e->recv_cq, 1, &wc) == 1)
		for (size_t i = 0; i < KINDS; i++)
			if (e->qp[i]->qp_num == wc.qp_num)
				receive_on(e, e->qp[i]);
}

static void exchange(struct end *e, int in, int out)
{
	uint32_t own[KINDS];

	for (size_t i = 0; i < KINDS; i++)
		own[i] = e->qp[i]->qp_num;
	assert_true(write(out, own, sizeof(own)) == sizeof(own) && read(in, far, sizeof(far)) == sizeof(far));
	connect_to(e, far);
	assert_true(write(out, "", 1) == 1 && read(in, own, 1) == 1); /* both are */
}

static void be_other(int in, int out)
{
	struct pollfd p = {in, POLLIN, 0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (open_context(NULL))
		_exit(1);
	open_end(&end);
	exchange(&end, in, out);
	while (!poll(&p, 1, 0))
		repost(&end);
	_exit(0);
}

static int setup(void **state)
{
	long page = sysconf(_SC_PAGESIZE);
	int to[2], from[2];
	char text[2][16], *at;

	if (open_context(state) || pipe(to) || pipe(from))
		return -1;
	child = fork();
	if (!child) {
		close(to[1]);
		snprintf(text[0], sizeof(text[0]), "%d", to[0]);
		snprintf(text[1], sizeof(text[1]), "%d", from[1]);
		execl("/proc/self/exe", "other", text[0], text[1], NULL);
		_exit(2);
	}
	tell = to[1];
	open_end(&end);
	exchange(&end, from[0], to[1]);
	at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(at != MAP_FAILED && !mprotect(at + page, page, PROT_NONE));
	list = (struct ibv_sge *)(at + page) - (SGES + 1);
	for (int i = 0; i <= SGES; i++)
		list[i] = (struct ibv_sge){(uintptr_t)end.memory, 4, end.mr->lkey};
	{
		struct ibv_ah_attr a = attributes(IBV_QPS_RTR, end.qp[0]).ah_attr;

		assert_non_null(ah = ibv_create_ah(end.pd, &a));
	}
	return 0;
}

static int teardown(void **state)
{
	int status;

	close(tell);
	waitpid(child, &status, 0);
	return status;
}

static struct ibv_send_wr request(size_t kind, enum ibv_wr_opcode opcode, unsigned flags, struct ibv_sge *sges, int n)
{
	struct ibv_send_wr wr = {.opcode = opcode, .send_flags = flags, .sg_list = sges, .num_sge = n};

	if (kinds[kind].type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = far[kind];
		wr.wr.ud.remote_qkey = QKEY;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)end.memory;
		wr.wr.rdma.rkey = end.mr->rkey;
	}
	return wr;
}

static void send_well(size_t kind)
{
	struct ibv_send_wr wr = request(kind, IBV_WR_SEND, IBV_SEND_SIGNALED, list, 1), *bad;

	assert_int_equal(ibv_post_send(end.qp[kind], &wr, &bad), 0);
	assert_int_equal(next(end.cq).status, IBV_WC_SUCCESS);
	repost(&end);
}

static bool has_met(const struct qp *qp)
{
	bool met = false;

	for (int i = 0; qp->flow && i < UD_FLOWS; i++)
		met |= qp->flow[i].near != NULL;
	return met;
}

/* Until the two processes have met, as far as this is done for queue pairs of that kind. */
static void settle(size_t kind)
{
	struct qp *qp = (struct qp *)end.qp[kind];

	do
		send_well(kind);
	while (kinds[kind].lane >= 0 && ((int)qp->lane != kinds[kind].lane || !(qp->reach || has_met(qp))));
}

/* Alone, and behind one that is right. */
static void expect_refused(size_t kind, struct ibv_send_wr *wrong)
{
	struct ibv_send_wr first = request(kind, IBV_WR_SEND, IBV_SEND_SIGNALED, list, 1), *bad = NULL;

	assert_int_equal(ibv_post_send(end.qp[kind], wrong, &bad), EINVAL);
	assert_ptr_equal(bad, wrong);
	first.next = wrong;
	bad = NULL;
	assert_int_equal(ibv_post_send(end.qp[kind], &first, &bad), EINVAL);
	assert_ptr_equal(bad, wrong);
	assert_int_equal(next(end.cq).status, IBV_WC_SUCCESS);
	repost(&end);
}

static const struct {
	int num_sge;
	bool is_null;
} wrong_lists[] = {
	{SGES + 1, false}, {31, false},	 {32, false},	   {33, false},	     {255, false},
	{256, false},	   {257, false}, {65537, false},   {-1, false},	     {1, true},
	{2, true},	   {-2, true},	 {INT_MAX, false}, {INT_MIN, false}, {INT_MAX, true},
};

static void a_list_that_is_none_is_refused(void **state)
{
	static const unsigned flags[] = {
		0,
		IBV_SEND_INLINE,
		IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
		IBV_SEND_FENCE | IBV_SEND_INLINE | IBV_SEND_SIGNALED,
		~0u,
	};

	for (size_t kind = 0; kind < KINDS; kind++) {
		settle(kind);
		for (int opcode = -1; opcode <= IBV_WR_ATOMIC_WRITE + 1; opcode++)
			for (size_t f = 0; f < ARRAY_SIZE(flags); f++)
				for (size_t i = 0; i < ARRAY_SIZE(wrong_lists); i++) {
					struct ibv_send_wr wr =
						request(kind, (enum ibv_wr_opcode)opcode, flags[f],
							wrong_lists[i].is_null ? NULL : list, wrong_lists[i].num_sge);

					expect_refused(kind, &wr);
				}
		send_well(kind);
	}
}

static void a_receive_without_a_list_is_refused(void **state)
{
	struct ibv_srq *srq =
		ibv_create_srq(end.pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = 8, .max_sge = SGES}});

	assert_non_null(srq);
	for (size_t i = 0; i < ARRAY_SIZE(wrong_lists); i++)
		for (int behind = 0; behind < 2; behind++) {
			struct ibv_recv_wr wrong = {.sg_list = wrong_lists[i].is_null ? NULL : list,
						    .num_sge = wrong_lists[i].num_sge},
					   first = {.next = &wrong}, *bad;

			for (size_t kind = 0; kind < KINDS; kind++) {
				bad = NULL;
				assert_int_equal(ibv_post_recv(end.qp[kind], &wrong, &bad), EINVAL);
				assert_ptr_equal(bad, &wrong);
			}
			bad = NULL;
			assert_int_equal(ibv_post_srq_recv(srq, behind && i < 7 ? &first : &wrong, &bad), EINVAL);
			assert_ptr_equal(bad, &wrong);
		}
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void a_batch_without_a_list_is_refused(void **state)
{
	static const size_t counts[] = {SGES + 1, 257, 1ul << 32, (1ul << 32) + 1, SIZE_MAX};

	for (size_t kind = 0; kind < KINDS; kind++) {
		struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(end.qp[kind]);

		for (size_t i = 0; i <= ARRAY_SIZE(counts); i++) {
			ibv_wr_start(ex);
			ex->wr_id = 1;
			ex->wr_flags = 0;
			ibv_wr_send(ex);
			if (kinds[kind].type == IBV_QPT_UD)
				ibv_wr_set_ud_addr(ex, ah, far[kind], QKEY);
			if (i < ARRAY_SIZE(counts))
				ibv_wr_set_sge_list(ex, counts[i], list);
			else
				ibv_wr_set_sge_list(ex, 1, NULL);
			assert_int_equal(ibv_wr_complete(ex), EINVAL);
			ibv_wr_start(ex); /* nothing that it could apply to */
			ibv_wr_set_sge_list(ex, 1, list);
			ibv_wr_set_sge(ex, list->lkey, list->addr, 4);
			ibv_wr_set_inline_data(ex, end.memory, 4);
			assert_int_equal(ibv_wr_complete(ex), EINVAL);
		}
		send_well(kind);
	}
}

static void a_window_is_bound_with_all_it_needs(void **state)
{
	struct ibv_mw *mw = ibv_alloc_mw(end.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.bind_info = {.addr = 1}}, data = {.send_flags = IBV_SEND_INLINE};

	assert_non_null(mw);
	data.bind_info = (struct ibv_mw_bind_info){end.mr, (uintptr_t)end.memory, 8, IBV_ACCESS_REMOTE_READ};
	for (size_t kind = 0; kind < KINDS; kind++) {
		assert_int_equal(ibv_bind_mw(end.qp[kind], mw, &bind), EINVAL);
		assert_int_equal(ibv_bind_mw(end.qp[kind], mw, &data), EINVAL);
		send_well(kind);
	}
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_that_is_none_is_refused),
		cmocka_unit_test(a_receive_without_a_list_is_refused),
		cmocka_unit_test(a_batch_without_a_list_is_refused),
		cmocka_unit_test(a_window_is_bound_with_all_it_needs),
	};

	if (argc == 3)
		be_other(atoi(argv[1]), atoi(argv[2]));
	enter_namespace();
	return cmocka_run_group_tests(tests, setup, teardown);
}
