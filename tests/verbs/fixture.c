/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/fixture.h"

#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

struct ibv_context *context;
struct ibv_device_attr limits;
static bool own_namespace;

bool enter_namespace(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int s;

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return false;
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0 || ioctl(s, SIOCSIFFLAGS, &lo)) {
		perror("lo up");
		exit(1);
	}
	close(s);
	own_namespace = true;
	return true;
}

int open_context(void **state)
{
	struct ibv_device **list;

	setenv("UROCE_DEVICES", "lo", 1);
	list = ibv_get_device_list(NULL);
	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	ibv_free_device_list(list);
	return context ? ibv_query_device(context, &limits) : -1;
}

int close_context(void **state)
{
	return ibv_close_device(context);
}

bool ip(const char *words)
{
	char command[256];

	if (!own_namespace)
		return false;
	snprintf(command, sizeof(command), "ip %s", words);
	return system(command) == 0;
}

struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq, const struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .cap = *cap, .qp_type = IBV_QPT_RC};

	return ibv_create_qp(pd, &a);
}

int mask_to(enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_INIT:
		return INIT_MASK;
	case IBV_QPS_RTR:
		return RTR_MASK;
	case IBV_QPS_RTS:
		return RTS_MASK;
	default:
		return IBV_QP_STATE;
	}
}

struct ibv_qp_attr attributes(enum ibv_qp_state to, const struct ibv_qp *peer)
{
	struct ibv_qp_attr a = {
		.qp_state = to,
		.path_mtu = IBV_MTU_1024,
		.rq_psn = peer->qp_num & 0xfff,
		.dest_qp_num = peer->qp_num,
		.qp_access_flags = ALL_ACCESS,
		.ah_attr = {.port_num = 1, .is_global = 1, .grh = {.hop_limit = 64}},
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.alt_ah_attr = {.port_num = 1, .is_global = 1, .grh = {.hop_limit = 64}},
		.alt_port_num = 1,
	};

	assert_int_equal(ibv_query_gid(context, 1, 0, &a.ah_attr.grh.dgid), 0);
	a.alt_ah_attr.grh.dgid = a.ah_attr.grh.dgid;
	return a;
}

static void leave(struct ibv_qp *qp, enum ibv_qp_state to)
{
	assert_int_equal(ibv_modify_qp(qp, &(struct ibv_qp_attr){.qp_state = to}, IBV_QP_STATE), 0);
}

void bring_datagrams(struct ibv_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};

	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

void bring(struct ibv_qp *qp, const struct ibv_qp *peer, enum ibv_qp_state to)
{
	static const enum ibv_qp_state way[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD};

	if (to == IBV_QPS_RESET)
		leave(qp, to);
	for (size_t i = 0; i < 4 && way[i] <= to; i++) {
		struct ibv_qp_attr a = attributes(way[i], peer);

		a.sq_psn = qp->qp_num & 0xfff;
		if (qp->state < way[i] && (to != IBV_QPS_ERR || way[i] == IBV_QPS_INIT))
			assert_int_equal(ibv_modify_qp(qp, &a, mask_to(way[i])), 0);
	}
	if (to == IBV_QPS_ERR)
		leave(qp, to);
	assert_int_equal(qp->state, to);
}

static void open_side(struct side *s)
{
	struct ibv_qp_cap cap = {
		.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64};

	assert_non_null(s->pd = ibv_alloc_pd(context));
	assert_non_null(s->channel = ibv_create_comp_channel(context));
	assert_non_null(s->cq = ibv_create_cq(context, 64, s, s->channel, 0));
	assert_non_null(s->memory = calloc(1, MEMORY));
	assert_non_null(s->mr = ibv_reg_mr(s->pd, s->memory, MEMORY, ALL_ACCESS));
	assert_non_null(s->qp = make_qp(s->pd, s->cq, &cap));
}

int open_sides(void **state)
{
	struct side *s = calloc(2, sizeof(*s));

	open_side(&s[0]);
	open_side(&s[1]);
	bring(s[0].qp, s[1].qp, IBV_QPS_INIT);
	bring(s[1].qp, s[0].qp, IBV_QPS_INIT);
	*state = s;
	return 0;
}

int close_sides(void **state)
{
	struct side *s = *state;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(s[i].qp), 0);
		assert_int_equal(ibv_destroy_cq(s[i].cq), 0);
		assert_int_equal(ibv_destroy_comp_channel(s[i].channel), 0);
		assert_int_equal(ibv_dereg_mr(s[i].mr), 0);
		assert_int_equal(ibv_dealloc_pd(s[i].pd), 0);
		free(s[i].memory);
	}
	free(s);
	return 0;
}

void connect_sides(struct side *s)
{
	bring(s[0].qp, s[1].qp, IBV_QPS_RTS);
	bring(s[1].qp, s[0].qp, IBV_QPS_RTS);
}

struct ibv_sge piece(const struct side *s, size_t offset, uint32_t length)
{
	return (struct ibv_sge){.addr = (uintptr_t)s->memory + offset, .length = length, .lkey = s->mr->lkey};
}

int side_send(struct side *s, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int error = ibv_post_send(s->qp, wr, &bad);

	assert_true(!error == !bad);
	return error;
}

int side_write(struct side *from, struct side *to, uint32_t length)
{
	struct ibv_sge sge = piece(from, 0, length);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)to->memory, to->mr->rkey},
	};

	return side_send(from, &wr);
}

int side_receive(struct side *s, uint64_t wr_id)
{
	struct ibv_sge sge = piece(s, 0, 4096);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	int error = ibv_post_recv(s->qp, &wr, &bad);

	assert_true(!error == !bad);
	return error;
}

struct ibv_wc next(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	do
		n = ibv_poll_cq(cq, 1, &wc);
	while (n == 0);
	assert_int_equal(n, 1);
	return wc;
}

void until_main_sleeps(void)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	do { /* PID (COMMAND) STATE ... */
		FILE *f = fopen(path, "r");

		if (!f || !fgets(text, sizeof(text), f))
			abort();
		fclose(f);
	} while (strncmp(strrchr(text, ')'), ") S", 3));
}
