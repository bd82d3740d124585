/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that injects faults into itself, by uroce.h. Linked without uroce; run by test_header.sh without it and
 * under `uroce run`, with one device. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uroce.h"

static int checks, failed;

static void check(bool good, const char *what)
{
	failed += !good;
	printf("%sok %d - %s\n", good ? "" : "not ", ++checks, what);
}

/* A queue pair that is connected to itself. */
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static char bytes[64];

static void need(bool good, const char *what)
{
	if (good)
		return;
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	need(list && list[0], "a device");
	context = ibv_open_device(list[0]);
	need(context != NULL, "ibv_open_device");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	need(pd && cq && mr, "a region and a CQ");
}

static void connect_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	qp = ibv_create_qp(pd, &init);
	need(qp != NULL, "ibv_create_qp");
	need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.min_rnr_timer = 1,
		.max_dest_rd_atomic = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
	};
	need(!ibv_query_gid(context, 1, 0, &a.ah_attr.grh.dgid), "ibv_query_gid");
	need(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	need(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

/* The status of one WRITE. */
static enum ibv_wc_status write_once(uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)bytes, 8, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	struct ibv_wc wc;
	int n;

	wr.wr.rdma.remote_addr = (uintptr_t)bytes + 32;
	wr.wr.rdma.rkey = mr->rkey;
	need(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	need(n == 1 && wc.wr_id == id, "ibv_poll_cq");
	return wc.status;
}

static void ignore(void *arg, int number, const char *text, uint64_t could, uint64_t fired)
{
	(void)arg, (void)number, (void)text, (void)could, (void)fired;
}

static void absent(void)
{
	char why[UROCE_WHY] = "untouched";

	check(uroce_version() == NULL, "uroce is not there");
	check(uroce_fault_add("out SEND: drop", why, sizeof(why)) == -ENOSYS && !strcmp(why, "untouched"), "no rule");
	check(uroce_fault_remove(1) == -ENOSYS && uroce_fault_clear() == -ENOSYS, "none to remove");
	check(uroce_fault_list(ignore, NULL) == -ENOSYS && uroce_fault_fired(1) == -ENOSYS, "none to list");
	check(uroce_fault_seed() == -ENOSYS, "no seed");
	check(uroce_link_down("uroce0") == -ENOSYS && uroce_link_up("uroce0") == -ENOSYS, "no port");
}

static void refuse_rules(void)
{
	char why[UROCE_WHY], little[8];

	check(uroce_fault_add("out SEND chnce 1%: drop", why, sizeof(why)) == -EINVAL, "a wrong rule is refused");
	check(strstr(why, "did you mean chance?\n  out SEND chnce 1%: drop\n           ^^^^^") != NULL,
	      "... with a caret under the word");
	check(uroce_fault_add("", little, sizeof(little)) == -EINVAL && strlen(little) == 7,
	      "... in the room there is");
	check(uroce_fault_add("out UD READ: drop", NULL, 0) == -EINVAL, "... or without a reason");
	check(uroce_fault_remove(1) == -ENOENT && uroce_fault_fired(1) == -ENOENT, "it got no number");
	for (int i = 0; i < 64; i++)
		need(uroce_fault_add("out SEND psn 77: drop", NULL, 0) > 0, "64 rules");
	check(uroce_fault_add("out SEND: drop", why, sizeof(why)) == -ENOSPC && strstr(why, "64"), "64, and no more");
	check(uroce_fault_clear() == 0 && uroce_fault_list(NULL, NULL) == 0, "none after it");
}

struct seen {
	int number;
	uint64_t could, fired;
	char text[64];
};

static void see(void *arg, int number, const char *text, uint64_t could, uint64_t fired)
{
	struct seen *s = arg;

	s->number = number;
	s->could = could;
	s->fired = fired;
	snprintf(s->text, sizeof(s->text), "%s", text);
}

static void fail_calls(void)
{
	int number = uroce_fault_add("call ibv_alloc_pd nth 2: refuse ENOMEM", NULL, 0);
	struct ibv_pd *one = ibv_alloc_pd(context), *two = ibv_alloc_pd(context);
	struct seen s = {0};

	check(number > 0 && one && !two && errno == ENOMEM, "a call fails");
	check(uroce_fault_list(see, &s) == 1 && s.number == number && s.could == 2 && s.fired == 1 &&
		      !strcmp(s.text, "call ibv_alloc_pd nth 2: refuse ENOMEM"),
	      "the list says so");
	check(uroce_fault_remove(number) == 0 && uroce_fault_remove(number) == -ENOENT, "the rule is removed, once");
	check(uroce_fault_fired(number) == 1, "... and how often it fired is known still");
	ibv_dealloc_pd(one);
	two = ibv_alloc_pd(context);
	check(two && ibv_dealloc_pd(two) == 0, "a call succeeds");
}

static void fail_requests(void)
{
	int number;

	check(write_once(1) == IBV_WC_SUCCESS, "a WRITE succeeds");
	number = uroce_fault_add("out WRITE nth 1: drop", NULL, 0);
	check(write_once(2) == IBV_WC_SUCCESS && uroce_fault_fired(number) == 1, "its packet is lost, and sent again");
	number = uroce_fault_add("complete WRITE nth 2: status REM_OP_ERR", NULL, 0);
	check(write_once(3) == IBV_WC_SUCCESS && write_once(4) == IBV_WC_REM_OP_ERR && uroce_fault_fired(number) == 1,
	      "the second from then on fails");
	check(uroce_fault_clear() == 0 && uroce_fault_seed() > 0, "the seed is known");
}

static enum ibv_event_type next_event(void)
{
	struct ibv_async_event event;

	for (;;) {
		need(!ibv_get_async_event(context, &event), "ibv_get_async_event");
		ibv_ack_async_event(&event);
		if (event.event_type == IBV_EVENT_PORT_ERR || event.event_type == IBV_EVENT_PORT_ACTIVE)
			return event.event_type;
	}
}

static enum ibv_port_state port_state(void)
{
	struct ibv_port_attr port;

	need(!ibv_query_port(context, 1, &port), "ibv_query_port");
	return port.state;
}

static void take_port_down(void)
{
	const char *name = ibv_get_device_name(context->device);

	check(uroce_link_down("nothing0") == -ENODEV, "no such device");
	check(uroce_link_down(name) == 0 && next_event() == IBV_EVENT_PORT_ERR && port_state() == IBV_PORT_DOWN,
	      "the port goes down");
	check(uroce_link_up(name) == 0 && next_event() == IBV_EVENT_PORT_ACTIVE && port_state() == IBV_PORT_ACTIVE,
	      "... and up");
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1) {
		absent();
	} else {
		check(uroce_version() && *uroce_version(), "uroce is there");
		refuse_rules();
		open_device();
		connect_qp();
		fail_calls();
		fail_requests();
		take_port_down();
	}
	printf("1..%d\n", checks);
	return failed > 0;
}
