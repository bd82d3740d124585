/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that goes while it is registered. Adapters pin pages, and programs get away with it; here an access
 * to it fails, and the program lives. */
#include "verbs/fixture.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/guarded.h"

enum { PAGES = 4 };

static size_t page;

/* Far below where the kernel puts what is mapped anywhere: it fills the highest hole that is large enough, so a page
 * that is unmapped among the others would sometimes be taken by another thread. In a range that the sanitizers leave to
 * programs; where no such address exists, the kernel chooses. */
static char *map_pages(void)
{
	void *hint = (void *)0x7e9000000000;
	char *m = mmap(hint, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(m != MAP_FAILED);
	return m;
}

/* protection: -1: unmapped */
static void take_away(char *m, int protection)
{
	if (protection < 0)
		munmap(m, page);
	else
		assert_int_equal(mprotect(m, page, protection), 0);
}

/* The second page is not there (or not writable); an access to both must fail at the end that has it. */
static void expect_errors(struct side *s, unsigned access)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		int protection; /* of the second page; -1: unmapped */
		bool here;	/* which end's memory it is */
		enum ibv_wc_status status;
	} rows[] = {
		{IBV_WR_SEND, -1, true, IBV_WC_LOC_PROT_ERR},
		{IBV_WR_SEND, PROT_NONE, true, IBV_WC_LOC_PROT_ERR},
		{IBV_WR_SEND, -1, false, IBV_WC_REM_OP_ERR},
		{IBV_WR_SEND, PROT_READ, false, IBV_WC_REM_OP_ERR},
		{IBV_WR_RDMA_WRITE, -1, true, IBV_WC_LOC_PROT_ERR},
		{IBV_WR_RDMA_WRITE, -1, false, IBV_WC_REM_ACCESS_ERR},
		{IBV_WR_RDMA_WRITE, PROT_READ, false, IBV_WC_REM_ACCESS_ERR},
		{IBV_WR_RDMA_READ, -1, true, IBV_WC_LOC_PROT_ERR},
		{IBV_WR_RDMA_READ, PROT_READ, true, IBV_WC_LOC_PROT_ERR},
		{IBV_WR_RDMA_READ, -1, false, IBV_WC_REM_ACCESS_ERR},
		{IBV_WR_RDMA_READ, PROT_NONE, false, IBV_WC_REM_ACCESS_ERR},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, -1, true, IBV_WC_LOC_PROT_ERR},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, -1, false, IBV_WC_REM_ACCESS_ERR},
		{IBV_WR_ATOMIC_CMP_AND_SWP, PROT_READ, false, IBV_WC_REM_ACCESS_ERR},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool atomic = rows[i].opcode >= IBV_WR_ATOMIC_CMP_AND_SWP;
		char *m = map_pages();
		struct ibv_mr *mr = ibv_reg_mr(s[!rows[i].here].pd, m, PAGES * page, ALL_ACCESS | access);
		uint64_t at = (uintptr_t)m + (atomic ? page : page - 8);
		uint32_t length = atomic ? 8 : 64;
		struct ibv_sge here = piece(&s[0], 0, length), there = piece(&s[1], 0, length);
		struct ibv_recv_wr recv = {.sg_list = &there, .num_sge = 1}, *bad;
		struct ibv_send_wr wr = {
			.sg_list = &here, .num_sge = 1, .opcode = rows[i].opcode, .send_flags = IBV_SEND_SIGNALED};
		struct ibv_wc wc;

		assert_non_null(mr);
		*(rows[i].here ? &here : &there) = (struct ibv_sge){at, length, mr->lkey};
		connect_sides(s);
		if (rows[i].opcode == IBV_WR_SEND) {
			assert_int_equal(ibv_post_recv(s[1].qp, &recv, &bad), 0);
		} else if (atomic) {
			wr.wr.atomic.remote_addr = there.addr;
			wr.wr.atomic.rkey = there.lkey; /* as its rkey */
		} else {
			wr.wr.rdma.remote_addr = there.addr;
			wr.wr.rdma.rkey = there.lkey;
		}
		take_away(m + page, rows[i].protection);
		assert_int_equal(side_send(&s[0], &wr), 0);
		wc = next(s[0].cq);
		if (wc.status != rows[i].status)
			print_message("# row %zu\n", i);
		assert_int_equal(wc.status, rows[i].status);
		bring(s[0].qp, s[1].qp, IBV_QPS_RESET);
		bring(s[1].qp, s[0].qp, IBV_QPS_RESET);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		munmap(m, page);
		munmap(m + 2 * page, 2 * page);
	}
}

static void pages_that_go_fail_what_uses_them(void **state)
{
	expect_errors(*state, 0);
}

static void so_do_those_that_are_paged_on_demand(void **state)
{
	if (guarded_available()) /* else there are none */
		expect_errors(*state, IBV_ACCESS_ON_DEMAND);
}

/* What was posted before it succeeds, what was posted after it is flushed, in order. */
static void only_the_request_that_uses_them_fails(void **state)
{
	enum { COUNT = 5, BAD = 2 };
	struct side *s = *state;
	char *m = map_pages();
	struct ibv_mr *mr = ibv_reg_mr(s[0].pd, m, PAGES * page, ALL_ACCESS);
	struct ibv_sge good = piece(&s[0], 0, 16), bad_sge = {(uintptr_t)m + page, 16, mr->lkey};
	struct ibv_send_wr wr[COUNT], *bad;

	for (int i = 0; i < COUNT; i++)
		wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
					     .sg_list = i == BAD ? &bad_sge : &good,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					     .send_flags = IBV_SEND_SIGNALED,
					     .wr.rdma = {(uintptr_t)s[1].memory + 64 * (size_t)i, s[1].mr->rkey},
					     .next = i + 1 < COUNT ? &wr[i + 1] : NULL};
	connect_sides(s);
	for (int i = 0; i < COUNT; i++)
		side_receive(&s[1], 7);
	take_away(m + page, -1); /* between others, or somebody's malloc() might be put there */
	assert_int_equal(ibv_post_send(s[0].qp, wr, &bad), 0);
	for (int i = 0; i < COUNT; i++) {
		struct ibv_wc wc = next(s[0].cq);

		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, i < BAD    ? IBV_WC_SUCCESS
					    : i == BAD ? IBV_WC_LOC_PROT_ERR
						       : IBV_WC_WR_FLUSH_ERR);
	}
	for (int i = 0; i < BAD; i++)
		assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(m, page);
	munmap(m + 2 * page, (PAGES - 2) * page);
}

/* A datagram or message of UC that cannot be read takes the send queue to SQE; a receive that cannot be
 * written, the QP to ERR. */
static struct ibv_qp *make(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = {.send_cq = cq,
				     .recv_cq = cq,
				     .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
				     .qp_type = type};
	struct ibv_qp *qp = ibv_create_qp(pd, &a);

	assert_non_null(qp);
	return qp;
}

static void start(struct ibv_qp *qp, const struct ibv_qp *peer, enum ibv_qp_type type)
{
	bool ud = type == IBV_QPT_UD;
	struct ibv_qp_attr a = attributes(IBV_QPS_INIT, peer);

	a.qkey = 5;
	assert_int_equal(ibv_modify_qp(qp, &a,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
			 0);
	a = attributes(IBV_QPS_RTR, peer);
	assert_int_equal(
		ibv_modify_qp(qp, &a,
			      ud ? IBV_QP_STATE
				 : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
		0);
	a = attributes(IBV_QPS_RTS, peer);
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
	return a.qp_state;
}

static void unreliable_ones_go_to_the_states_of_the_tables(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		bool here;
		int protection;
		enum ibv_qp_state sender, receiver;
	} rows[] = {
		{IBV_QPT_UC, true, -1, IBV_QPS_SQE, IBV_QPS_RTS},
		{IBV_QPT_UC, true, PROT_NONE, IBV_QPS_SQE, IBV_QPS_RTS},
		{IBV_QPT_UC, false, -1, IBV_QPS_RTS, IBV_QPS_ERR},
		{IBV_QPT_UC, false, PROT_READ, IBV_QPS_RTS, IBV_QPS_ERR},
		{IBV_QPT_UD, true, -1, IBV_QPS_SQE, IBV_QPS_RTS},
		{IBV_QPT_UD, true, PROT_NONE, IBV_QPS_SQE, IBV_QPS_RTS},
		{IBV_QPT_UD, false, -1, IBV_QPS_RTS, IBV_QPS_ERR},
		{IBV_QPT_UD, false, PROT_READ, IBV_QPS_RTS, IBV_QPS_ERR},
	};
	struct side *s = *state;
	struct ibv_ah_attr av = {.port_num = 1, .is_global = 1};
	struct ibv_ah *ah;

	assert_int_equal(ibv_query_gid(context, 1, 0, &av.grh.dgid), 0);
	assert_non_null(ah = ibv_create_ah(s[0].pd, &av));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp *from = make(s[0].pd, s[0].cq, rows[i].type), *to = make(s[1].pd, s[1].cq, rows[i].type);
		char *m = map_pages();
		struct ibv_mr *mr = ibv_reg_mr(s[!rows[i].here].pd, m, PAGES * page, ALL_ACCESS);
		struct ibv_sge here = piece(&s[0], 0, 900), there = piece(&s[1], 0, 1000);
		struct ibv_recv_wr recv = {.sg_list = &there, .num_sge = 1}, *bad_recv;
		struct ibv_send_wr wr = {.sg_list = &here, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;

		wr.opcode = IBV_WR_SEND;
		if (rows[i].type == IBV_QPT_UD) {
			wr.wr.ud.ah = ah;
			wr.wr.ud.remote_qpn = to->qp_num;
			wr.wr.ud.remote_qkey = 5;
		}
		start(from, to, rows[i].type);
		start(to, from, rows[i].type);
		*(rows[i].here ? &here : &there) = (struct ibv_sge){(uintptr_t)m, rows[i].here ? 900 : 1000, mr->lkey};
		take_away(m, rows[i].protection);
		assert_int_equal(ibv_post_recv(to, &recv, &bad_recv), 0);
		assert_int_equal(ibv_post_send(from, &wr, &bad), 0);
		assert_int_equal(next(s[0].cq).status, rows[i].here ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
		if (!rows[i].here)
			assert_int_equal(next(s[1].cq).status, IBV_WC_LOC_PROT_ERR);
		assert_int_equal(state_of(from), rows[i].sender);
		assert_int_equal(state_of(to), rows[i].receiver);
		assert_int_equal(ibv_destroy_qp(from), 0);
		assert_int_equal(ibv_destroy_qp(to), 0);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		munmap(m, PAGES * page);
	}
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void own_handler(int number)
{
	_exit(42);
}

/* Registers memory, and makes a mistake of its own. How that ends. */
static int crash(struct side *s, void (*handler)(int))
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		char *m = map_pages();

		signal(SIGSEGV, handler); /* and none of a test's or a sanitizer's */
		if (!ibv_reg_mr(s->pd, m, page, IBV_ACCESS_LOCAL_WRITE))
			_exit(1);
		mprotect(m, page, PROT_NONE);
		*(volatile char *)m = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void other_faults_are_the_programs_own(void **state)
{
	assert_int_equal(crash(*state, SIG_DFL), SIGSEGV);
	assert_int_equal(crash(*state, own_handler), 42);
}

/* What follows goes by UDP, and not by shared memory. */
static void without_local_peers(void **state)
{
	close_context(state);
	setenv("UROCE_LOCAL", "off", true);
	assert_int_equal(open_context(state), 0);
}

int main(void)
{
#define WITH_SIDES(name) cmocka_unit_test_setup_teardown(name, open_sides, close_sides)
#define ALL                                                                                              \
	WITH_SIDES(pages_that_go_fail_what_uses_them), WITH_SIDES(so_do_those_that_are_paged_on_demand), \
		WITH_SIDES(only_the_request_that_uses_them_fails),                                       \
		WITH_SIDES(unreliable_ones_go_to_the_states_of_the_tables)
	const struct CMUnitTest tests[] = {
		ALL,
		WITH_SIDES(other_faults_are_the_programs_own),
		cmocka_unit_test(without_local_peers),
		ALL,
	};

	page = (size_t)sysconf(_SC_PAGESIZE);
	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
