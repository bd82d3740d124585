/* SPDX-License-Identifier: BSD-2-Clause */
/* Which addresses a packet must have, with two addresses of one interface: by UDP and by shared memory the same. */
#include "verbs/fixture.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST  "10.77.0.1"
#define SECOND "10.77.0.2"
enum { QKEY = 0x1234, AT = 64 };

static union ibv_gid gid[2];
static uint8_t gid_index[2];

static void find_addresses(void)
{
	static const char *const text[2] = {FIRST, SECOND};
	union ibv_gid g;

	for (int i = 0; i < 2; i++) {
		gid[i] = (union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff}};
		assert_int_equal(inet_pton(AF_INET, text[i], gid[i].raw + 12), 1);
		for (gid_index[i] = 0; !ibv_query_gid(context, 1, gid_index[i], &g); gid_index[i]++)
			if (!memcmp(&g, &gid[i], sizeof(g)))
				break;
		assert_memory_equal(&g, &gid[i], sizeof(g));
	}
}

/* ---- pairs of queue pairs ---- */

static void make(struct side s[2], enum ibv_qp_type type)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr a = {.cap = {16, 16, 1, 1, 0}, .qp_type = type, .sq_sig_all = 1};

		assert_non_null(s[i].pd = ibv_alloc_pd(context));
		assert_non_null(s[i].cq = ibv_create_cq(context, 64, NULL, NULL, 0));
		assert_non_null(s[i].memory = calloc(1, MEMORY));
		assert_non_null(s[i].mr = ibv_reg_mr(s[i].pd, s[i].memory, MEMORY, ALL_ACCESS));
		a.send_cq = a.recv_cq = s[i].cq;
		assert_non_null(s[i].qp = ibv_create_qp(s[i].pd, &a));
	}
}

static void unmake(struct side s[2])
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(s[i].qp), 0);
		assert_int_equal(ibv_dereg_mr(s[i].mr), 0);
		assert_int_equal(ibv_destroy_cq(s[i].cq), 0);
		assert_int_equal(ibv_dealloc_pd(s[i].pd), 0);
		free(s[i].memory);
	}
}

/* Which addresses each side has for itself and for the other. */
struct ends {
	int from[2], to[2];
};

static struct ends ends_of(int way)
{
	return (struct ends){{way & 1, way >> 2 & 1}, {way >> 1 & 1, way >> 3 & 1}};
}

static bool ends_agree(const struct ends *e)
{
	return e->from[0] == e->to[1] && e->from[1] == e->to[0];
}

static void join(struct side s[2], int i, const struct ends *e, enum ibv_qp_state state)
{
	const struct ibv_qp *peer = s[!i].qp;
	bool uc = s[i].qp->qp_type == IBV_QPT_UC;
	int rc_only = uc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
	struct ibv_qp_attr a = attributes(IBV_QPS_INIT, peer);

	assert_int_equal(ibv_modify_qp(s[i].qp, &a, INIT_MASK), 0);
	a = attributes(IBV_QPS_RTR, peer);
	a.ah_attr.grh.sgid_index = gid_index[e->from[i]];
	a.ah_attr.grh.dgid = gid[e->to[i]];
	assert_int_equal(ibv_modify_qp(s[i].qp, &a, RTR_MASK & ~rc_only), 0);
	if (state == IBV_QPS_RTR)
		return;
	a = attributes(IBV_QPS_RTS, peer);
	a.sq_psn = s[i].qp->qp_num & 0xfff;
	a.timeout = 8;
	a.retry_cnt = 1;
	assert_int_equal(ibv_modify_qp(s[i].qp, &a, uc ? IBV_QP_STATE | IBV_QP_SQ_PSN : RTS_MASK), 0);
}

static enum ibv_wc_status result(struct side s[2], int i, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = piece(&s[i], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode};

	strcpy(s[i].memory, "message");
	wr.wr.rdma.remote_addr = (uintptr_t)s[!i].memory + AT;
	wr.wr.rdma.rkey = s[!i].mr->rkey;
	sge.addr += opcode == IBV_WR_RDMA_READ ? AT : 0;
	assert_int_equal(side_receive(&s[!i], 7), 0);
	assert_int_equal(side_send(&s[i], &wr), 0);
	return next(s[i].cq).status;
}

/* Whether a message has come to that side, in its receive or its memory. */
static bool has_arrived(struct side *s)
{
	struct ibv_wc wc;

	return ibv_poll_cq(s->cq, 1, &wc) == 1 || s->memory[AT];
}

/* ---- the rules ---- */

/* RC: from the peer's address to the own one (IBTA 9.6.1; the kernel's rxe checks both). `late`: the other side has
 * sent nothing yet, and cannot. */
static int check_rc(int way, enum ibv_wr_opcode opcode, int first, bool late)
{
	struct ends e = ends_of(way);
	enum ibv_wc_status status, wanted = ends_agree(&e) ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR;
	struct side s[2];
	bool arrived;

	make(s, IBV_QPT_RC);
	join(s, !first, &e, late ? IBV_QPS_RTR : IBV_QPS_RTS);
	join(s, first, &e, IBV_QPS_RTS);
	status = result(s, first, opcode);
	arrived = opcode == IBV_WR_RDMA_READ ? ends_agree(&e) : has_arrived(&s[!first]);
	unmake(s);
	if (status == wanted && arrived == ends_agree(&e))
		return 0;
	printf("# UROCE_LOCAL=%s, opcode %d: side 0 is %d, its peer %d; side 1 is %d, its peer %d; %d sends%s: %s, "
	       "%s\n",
	       getenv("UROCE_LOCAL"), opcode, e.from[0], e.to[0], e.from[1], e.to[1], first,
	       late ? ", 1 is in RTR" : "", ibv_wc_status_str(status), arrived ? "arrived" : "did not arrive");
	return 1;
}

static int check_all_rc(void)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	int failed = 0;

	for (int way = 0; way < 16; way++)
		for (size_t o = 0; o < 3; o++)
			for (int first = 0; first < 2; first++)
				for (int late = 0; late < 2; late++)
					failed += check_rc(way, opcodes[o], first, late);
	return failed;
}

/* UC: the same. What RC sends afterwards from and to the same addresses comes later. */
static int check_uc(int way)
{
	struct ends e = ends_of(way), after = {{e.from[0], e.to[0]}, {e.to[0], e.from[0]}};
	struct side s[2], rc[2];
	bool arrived;

	make(s, IBV_QPT_UC);
	make(rc, IBV_QPT_RC);
	for (int i = 1; i >= 0; i--) {
		join(rc, i, &after, IBV_QPS_RTS);
		join(s, i, &e, IBV_QPS_RTS);
	}
	assert_int_equal(result(s, 0, IBV_WR_SEND), IBV_WC_SUCCESS);
	assert_int_equal(result(rc, 0, IBV_WR_SEND), IBV_WC_SUCCESS);
	arrived = has_arrived(&s[1]);
	unmake(s);
	unmake(rc);
	if (arrived == ends_agree(&e))
		return 0;
	printf("# UROCE_LOCAL=%s, UC: side 0 is %d, its peer %d; side 1 is %d, its peer %d: %s\n",
	       getenv("UROCE_LOCAL"), e.from[0], e.to[0], e.from[1], e.to[1], arrived ? "arrived" : "did not arrive");
	return 1;
}

static int check_all_uc(void)
{
	int failed = 0;

	for (int way = 0; way < 16; way++)
		failed += check_uc(way);
	return failed;
}

/* UD: to any address of the device; the datagram says from where and to where. */
static void check_ud(int from, int to)
{
	struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1, .grh = {.dgid = gid[to], .hop_limit = 64}}, back;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct side s[2];
	struct ibv_wc wc;

	attr.grh.sgid_index = gid_index[from];
	make(s, IBV_QPT_UD);
	bring_datagrams(s[0].qp, QKEY);
	bring_datagrams(s[1].qp, QKEY);
	sge = piece(&s[0], 0, 8);
	assert_non_null(wr.wr.ud.ah = ibv_create_ah(s[0].pd, &attr));
	wr.wr.ud.remote_qpn = s[1].qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	assert_int_equal(side_receive(&s[1], 7), 0);
	assert_int_equal(side_send(&s[0], &wr), 0);
	wc = next(s[1].cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)s[1].memory, &back), 0);
	assert_int_equal(back.grh.sgid_index, gid_index[to]);
	assert_memory_equal(&back.grh.dgid, &gid[from], sizeof(gid[from]));
	assert_int_equal(ibv_destroy_ah(wr.wr.ud.ah), 0);
	unmake(s);
}

static int check_all_ud(void)
{
	for (int way = 0; way < 4; way++)
		check_ud(way & 1, way >> 1);
	return 0;
}

/* ---- each link in a process of its own ---- */

static int run(const char *local, int (*check)(void))
{
	int failed;

	setenv("UROCE_LOCAL", local, 1);
	setenv("UROCE_LOG", "error", 1);
	assert_int_equal(open_context(NULL), 0);
	find_addresses();
	failed = check();
	fflush(stdout);
	return failed != 0;
}

static void by_each_link(int (*check)(void))
{
	static const char *const locals[] = {"on", "off"};
	int status, failed = 0;

	for (size_t i = 0; i < 2; i++) {
		pid_t child = fork();

		assert_true(child >= 0);
		if (!child)
			_exit(run(locals[i], check));
		assert_int_equal(waitpid(child, &status, 0), child);
		failed += status != 0;
	}
	assert_int_equal(failed, 0);
}

static void a_connection_takes_packets_between_its_two_addresses(void **state)
{
	by_each_link(check_all_rc);
}

static void an_unreliable_connection_does_too(void **state)
{
	by_each_link(check_all_uc);
}

static void datagrams_come_to_each_address_of_the_device(void **state)
{
	by_each_link(check_all_ud);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_takes_packets_between_its_two_addresses),
		cmocka_unit_test(an_unreliable_connection_does_too),
		cmocka_unit_test(datagrams_come_to_each_address_of_the_device),
	};

	if (!enter_namespace() || !ip("addr add " FIRST "/32 dev lo") || !ip("addr add " SECOND "/32 dev lo")) {
		puts("1..0 # SKIP no namespace here");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
