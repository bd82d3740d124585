// SPDX-License-Identifier: BSD-2-Clause
/* What single calls cost: an ordinary verbs program, built with -libverbs, that connects two queue pairs of
 * its own to each other.
 *
 *   verbs cost    prints "name ns" lines: post_send of a request that may wait for more (the connection is
 * busy), post_send to an idle connection (which sends at once), poll_cq of an empty CQ while nothing is under
 * way, and poll_cq per completion found verbs idle    connects, moves one message, prints "idle", and sleeps
 * until its input ends */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	DEPTH = 1024,
	BURST = 32, /* requests posted one by one behind one that is on its way */
	ROUNDS = 2000,
	SIZE = 64,
};

static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static struct ibv_mr *mr;
static char memory[2 * SIZE];

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void connect_to(struct ibv_qp *from, struct ibv_qp *to, const union ibv_gid *gid)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 1}}};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};

	need(!ibv_modify_qp(from, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "to INIT");
	need(!ibv_modify_qp(from, &rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "to RTR");
	need(!ibv_modify_qp(from, &rts,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "to RTS");
}

static void set_up(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;
	union ibv_gid gid;

	need(list && list[0], "no device");
	context = ibv_open_device(list[0]);
	need(context, "ibv_open_device");
	pd = ibv_alloc_pd(context);
	need(pd, "ibv_alloc_pd");
	cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0);
	need(cq, "ibv_create_cq");
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	need(mr, "ibv_reg_mr");
	need(!ibv_query_gid(context, 1, 0, &gid), "ibv_query_gid");
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = {.send_cq = cq,
						.recv_cq = cq,
						.qp_type = IBV_QPT_RC,
						.cap = {.max_send_wr = DEPTH,
							.max_recv_wr = 1,
							.max_send_sge = 1,
							.max_recv_sge = 1}};
		qp[i] = ibv_create_qp(pd, &init);
		need(qp[i], "ibv_create_qp");
	}
	connect_to(qp[0], qp[1], &gid);
	connect_to(qp[1], qp[0], &gid);
	ibv_free_device_list(list);
}

static void post(bool signaled)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = SIZE, .lkey = mr->lkey};
	struct ibv_send_wr *bad,
		wr = {.sg_list = &sge,
		      .num_sge = 1,
		      .opcode = IBV_WR_RDMA_WRITE,
		      .send_flags = signaled ? IBV_SEND_SIGNALED : 0,
		      .wr.rdma = {.remote_addr = (uintptr_t)memory + SIZE, .rkey = mr->rkey}};

	need(!ibv_post_send(qp[0], &wr, &bad), "ibv_post_send");
}

static void complete(int count)
{
	struct ibv_wc wc[BURST];

	while (count > 0) {
		int n = ibv_poll_cq(cq, BURST, wc);

		need(n >= 0, "ibv_poll_cq");
		for (int i = 0; i < n; i++)
			need(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
		count -= n;
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void report(const char *name, uint64_t *sample, double divisor)
{
	qsort(sample, ROUNDS, sizeof(*sample), compare);
	printf("%s %.1f\n", name, (double)sample[ROUNDS / 2] / divisor);
}

static void cost(void)
{
	static uint64_t first[ROUNDS], more[ROUNDS], found[ROUNDS], empty[ROUNDS], clock_reads[ROUNDS];
	struct ibv_wc wc[BURST];

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t t[6];

		t[0] = now();
		post(true);
		t[1] = now();
		for (int i = 0; i < BURST; i++)
			post(i == BURST - 1);
		t[2] = now();
		complete(2);
		/* One acknowledgement completes the whole train: once the first has come, the others lie
		 * there. */
		for (int i = 0; i < BURST; i++)
			post(true);
		complete(1);
		t[3] = now();
		int n = ibv_poll_cq(cq, BURST, wc);
		t[4] = now();
		complete(BURST - 1 - n);
		t[5] = now();
		clock_reads[round] = now() - t[5];
		first[round] = t[1] - t[0];
		more[round] = t[2] - t[1];
		found[round] = n > 0 ? (t[4] - t[3]) * 100 / (uint64_t)n : 0;
		uint64_t begin = now();
		for (int i = 0; i < BURST; i++)
			ibv_poll_cq(cq, 1, wc);
		empty[round] = now() - begin;
	}
	report("post_send,idle", first, 1);
	report("post_send,busy", more, BURST);
	report("poll_cq,empty", empty, BURST);
	report("poll_cq,found", found, 100);
	report("clock", clock_reads, 1);
}

static void idle(void)
{
	char end;

	post(true);
	complete(1);
	puts("idle");
	fflush(stdout);
	while (read(STDIN_FILENO, &end, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	bool is_idle = argc == 2 && strcmp(argv[1], "idle") == 0;

	if (!is_idle && !(argc == 2 && strcmp(argv[1], "cost") == 0)) {
		fprintf(stderr, "usage: verbs cost | idle\n");
		return 2;
	}
	set_up();
	(is_idle ? idle : cost)();
	return 0;
}
