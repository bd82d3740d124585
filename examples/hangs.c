// SPDX-License-Identifier: BSD-2-Clause
/* Programs that hang: each case has one mistake, waits for ever, and no verb fails. docs/hangs.md has what `uroce
 * explain` says of each.
 *
 *	cc -g hangs.c -o hangs -libverbs
 *	uroce run ./hangs CASE
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define MUST(x) ((x) ? (void)0 : fail(__LINE__, #x))
#define ZERO(x) MUST(!(errno = (x)))

static void fail(int line, const char *what)
{
	fprintf(stderr, "line %d: %s: %s\n", line, what, strerror(errno));
	exit(1);
}

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *sends, *receives, *events;
static struct ibv_mr *mr;
static char memory[4096];

static struct ibv_qp *qp_create(struct ibv_cq *send_cq, struct ibv_cq *recv_cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	MUST(qp);
	ZERO(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return qp;
}

static void qp_connect(struct ibv_qp *qp, uint32_t peer, uint32_t rq_psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.rq_psn = rq_psn,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
	};

	ZERO(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid));
	ZERO(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	/* timeout 0 and rnr_retry 7: it waits for an answer for ever */
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = 100, .retry_cnt = 7, .rnr_retry = 7};
	ZERO(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC));
}

static void post_receive(struct ibv_qp *qp)
{
	struct ibv_sge piece = {(uintptr_t)memory, 64, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &piece, .num_sge = 1}, *bad;

	ZERO(ibv_post_recv(qp, &wr, &bad));
}

static void post_send(struct ibv_qp *qp, unsigned flags)
{
	struct ibv_sge piece = {(uintptr_t)memory + 2048, 64, mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &piece, .num_sge = 1, .send_flags = flags}, *bad;

	ZERO(ibv_post_send(qp, &wr, &bad));
}

static void await(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	printf("waiting\n");
	fflush(stdout);
	do
		MUST((n = ibv_poll_cq(cq, 1, &wc)) >= 0);
	while (n == 0);
	printf("completed: %s\n", ibv_wc_status_str(wc.status));
}

/* ---- the cases: a sends, b receives ---- */

static void no_receive(struct ibv_qp *a, struct ibv_qp *b)
{
	qp_connect(a, b->qp_num, 100);
	qp_connect(b, a->qp_num, 100);
	post_send(a, IBV_SEND_SIGNALED);
	await(sends);
}

static void unsignalled(struct ibv_qp *a, struct ibv_qp *b)
{
	qp_connect(a, b->qp_num, 100);
	qp_connect(b, a->qp_num, 100);
	post_receive(b);
	post_send(a, 0);
	await(sends);
}

static void other_cq(struct ibv_qp *a, struct ibv_qp *b)
{
	qp_connect(a, b->qp_num, 100);
	qp_connect(b, a->qp_num, 100);
	post_receive(b);
	post_send(a, IBV_SEND_SIGNALED);
	await(events);
}

static void unarmed(struct ibv_qp *a, struct ibv_qp *b)
{
	struct ibv_cq *cq;
	void *data;

	b = qp_create(sends, events);
	qp_connect(a, b->qp_num, 100);
	qp_connect(b, a->qp_num, 100);
	printf("waiting\n");
	fflush(stdout);
	ZERO(ibv_get_cq_event(channel, &cq, &data));
}

static void rq_psn(struct ibv_qp *a, struct ibv_qp *b)
{
	qp_connect(a, b->qp_num, 100);
	qp_connect(b, a->qp_num, 101);
	post_receive(b);
	post_send(a, IBV_SEND_SIGNALED);
	await(receives);
}

static void not_ready(struct ibv_qp *a, struct ibv_qp *b)
{
	qp_connect(a, b->qp_num, 100);
	post_receive(b);
	post_send(a, IBV_SEND_SIGNALED);
	await(sends);
}

static void not_connected(struct ibv_qp *a, struct ibv_qp *b)
{
	qp_connect(a, b->qp_num, 100);
	qp_connect(b, b->qp_num, 100);
	post_receive(b);
	post_send(a, IBV_SEND_SIGNALED);
	await(sends);
}

static void both_wait(struct ibv_qp *a, struct ibv_qp *b)
{
	qp_connect(a, b->qp_num, 100);
	qp_connect(b, a->qp_num, 100);
	post_receive(a);
	post_receive(b);
	await(receives);
}

static const struct {
	const char *name;
	void (*run)(struct ibv_qp *a, struct ibv_qp *b);
} cases[] = {
	{"no-receive", no_receive},
	{"unsignalled", unsignalled},
	{"other-cq", other_cq},
	{"unarmed", unarmed},
	{"rq-psn", rq_psn},
	{"not-ready", not_ready},
	{"not-connected", not_connected},
	{"both-wait", both_wait},
};

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(list && *list && (context = ibv_open_device(*list)));
	ibv_free_device_list(list);
	MUST(pd = ibv_alloc_pd(context));
	MUST(mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE));
	MUST(channel = ibv_create_comp_channel(context));
	MUST(sends = ibv_create_cq(context, 8, NULL, NULL, 0));
	MUST(receives = ibv_create_cq(context, 8, NULL, NULL, 0));
	MUST(events = ibv_create_cq(context, 8, NULL, channel, 0));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (argc == 2 && !strcmp(argv[1], cases[i].name)) {
			cases[i].run(qp_create(sends, receives), qp_create(sends, receives));
			return 0;
		}
	fprintf(stderr, "usage: hangs CASE, one of:\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		fprintf(stderr, " %s", cases[i].name);
	fprintf(stderr, "\n");
	return 2;
}
