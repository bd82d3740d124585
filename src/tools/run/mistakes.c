/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce demo mistakes`, the program that `uroce demo check` checks: plain libibverbs, with three classic mistakes
 * in sending letters from one queue pair to another. `uroce demo mended` has none of them. Functions are exported,
 * so that stacks name them without debug information. */
#include "tools/run/mistakes.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"

/* From the preloaded library: other subcommands work on machines without libibverbs. */
#pragma weak ibv_ack_cq_events
#pragma weak ibv_alloc_pd
#pragma weak ibv_close_device
#pragma weak ibv_create_comp_channel
#pragma weak ibv_create_cq
#pragma weak ibv_create_qp
#pragma weak ibv_dealloc_pd
#pragma weak ibv_dereg_mr
#pragma weak ibv_destroy_comp_channel
#pragma weak ibv_destroy_cq
#pragma weak ibv_destroy_qp
#pragma weak ibv_free_device_list
#pragma weak ibv_get_cq_event
#pragma weak ibv_get_device_list
#pragma weak ibv_modify_qp
#pragma weak ibv_open_device
#pragma weak ibv_query_gid
#pragma weak ibv_reg_mr
#undef ibv_reg_mr /* a macro of verbs.h that also needs ibv_reg_mr_iova2() */

#define SHOWN __attribute__((noinline, visibility("default")))

enum { LETTERS = 3, ROOM = 64 };

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	char text[ROOM];
};

struct post_office {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* of the receiver */
	struct ibv_mr *mr;		  /* of this struct, for both texts */
	struct end from, to;
	bool mended;
};

SHOWN int post_office_open(struct post_office *o);
SHOWN int post_office_close(struct post_office *o);
SHOWN int expect_letter(struct post_office *o);
SHOWN int send_letter(struct post_office *o, int number);
SHOWN int wait_for_letter(struct post_office *o);

/* ---- two queue pairs; each step returns 0 or an errno ---- */

static int end_create(struct post_office *o, struct end *e, struct ibv_comp_channel *channel)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	e->cq = ibv_create_cq(o->context, 8, NULL, channel, 0);
	attr.send_cq = attr.recv_cq = e->cq;
	e->qp = e->cq ? ibv_create_qp(o->pd, &attr) : NULL;
	if (!e->qp)
		return errno;
	return ibv_modify_qp(e->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int end_connect(struct post_office *o, struct end *e, const struct end *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	int error;

	if (ibv_query_gid(o->context, 1, 0, &attr.ah_attr.grh.dgid))
		return errno;
	error = ibv_modify_qp(e->qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (error)
		return error;
	attr.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(e->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC);
}

static int device_open(struct post_office *o)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !*list)
		return ENODEV;
	o->context = ibv_open_device(*list);
	ibv_free_device_list(list);
	return o->context ? 0 : errno;
}

int post_office_open(struct post_office *o)
{
	int error = device_open(o);

	if (error)
		return error;
	o->pd = ibv_alloc_pd(o->context);
	o->channel = ibv_create_comp_channel(o->context);
	o->mr = o->pd ? ibv_reg_mr(o->pd, o, sizeof(*o), IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!o->channel || !o->mr)
		return errno;
	return end_create(o, &o->from, NULL)
		       ?: end_create(o, &o->to, o->channel)
				  ?: end_connect(o, &o->from, &o->to) ?: end_connect(o, &o->to, &o->from);
}

/* Mistakes: the last letter may still be on its way, and one of the two completion queues is forgotten. */
int post_office_close(struct post_office *o)
{
	int error = ibv_destroy_qp(o->from.qp) ?: ibv_destroy_qp(o->to.qp) ?: ibv_destroy_cq(o->to.cq);

	if (!error && o->mended)
		error = ibv_destroy_cq(o->from.cq);
	return error ?: ibv_destroy_comp_channel(o->channel)
				?: ibv_dereg_mr(o->mr) ?: ibv_dealloc_pd(o->pd) ?: ibv_close_device(o->context);
}

/* ---- letters ---- */

/* Polls until there is a completion. 0, or EIO for an error. */
static int poll_one(const struct end *e)
{
	struct ibv_wc wc;
	int n;

	do
		n = ibv_poll_cq(e->cq, 1, &wc);
	while (!n);
	return n == 1 && wc.status == IBV_WC_SUCCESS ? 0 : EIO;
}

/* The event is asked for while nothing can come; else a poll would have to follow. */
int expect_letter(struct post_office *o)
{
	struct ibv_sge sge = {.addr = (uintptr_t)o->to.text, .length = ROOM, .lkey = o->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_req_notify_cq(o->to.cq, 0) ?: ibv_post_recv(o->to.qp, &wr, &bad);
}

/* Mistakes: the text is wiped while it belongs to the adapter, and the completion of the last letter is not polled. */
int send_letter(struct post_office *o, int number)
{
	struct ibv_sge sge = {.addr = (uintptr_t)o->from.text, .length = ROOM, .lkey = o->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = (uint64_t)number,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	int error;

	snprintf(o->from.text, ROOM, "letter %d", number);
	error = ibv_post_send(o->from.qp, &wr, &bad);
	if (error)
		return error;
	if (!o->mended)
		memset(o->from.text, 0, ROOM);
	if (o->mended || number < LETTERS)
		error = poll_one(&o->from);
	memset(o->from.text, 0, ROOM);
	return error;
}

int wait_for_letter(struct post_office *o)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(o->channel, &cq, &context))
		return errno;
	ibv_ack_cq_events(cq, 1);
	return poll_one(&o->to);
}

static int send_letters(struct post_office *o)
{
	char expected[ROOM];
	int error = 0, came = 0;

	for (int i = 1; i <= LETTERS && !error; i++) {
		error = expect_letter(o) ?: send_letter(o, i) ?: wait_for_letter(o);
		snprintf(expected, sizeof(expected), "letter %d", i);
		came += !error && !strcmp(o->to.text, expected);
	}
	if (!error)
		printf("%d letters sent, %d arrived unchanged\n", LETTERS, came);
	fflush(stdout);
	return error;
}

int mistakes_run(const struct command *command, bool mended)
{
	struct post_office *o = calloc(1, sizeof(*o));
	int error;

	if (!o)
		return complain(command, "no memory");
	o->mended = mended;
	if (ibv_get_device_list)
		error = post_office_open(o) ?: send_letters(o) ?: post_office_close(o);
	else
		error = ENOSYS;
	free(o);
	if (error == ENOSYS)
		return complain(command, "libibverbs is not loaded: use `uroce run uroce demo %s`",
				mended ? "mended" : "mistakes");
	if (error)
		return complain(command, "%s: run `uroce doctor`", strerror(error));
	return EXIT_SUCCESS;
}
