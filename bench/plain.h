// SPDX-License-Identifier: BSD-2-Clause
/* What verbs.c, scale.c and crowd.c share: plain libibverbs, one domain, one CQ, RC queue pairs; the first device, its
 * first GID. Whatever fails ends the program. */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

struct plain {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	union ibv_gid gid;
};

static inline void need(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Of this process, in KiB: its share of what is shared. */
static inline double memory_in_use(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kib = -1;

	need(f, "/proc/self/smaps_rollup");
	while (kib < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "Pss: %ld", &kib);
	fclose(f);
	return (double)kib;
}

/* A process for each value of *me below `count`, which ends with this one; run() does not return. */
static inline void start_processes(uint32_t *me, uint32_t count, void (*run)(void))
{
	for (*me = 0; *me < count; ++*me) {
		pid_t pid = fork();

		need(pid >= 0, "fork");
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run();
		}
	}
}

static inline struct plain plain_open(int cqe, void *memory, size_t size)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct plain p;

	need(list && list[0], "no device");
	context = ibv_open_device(list[0]);
	need(context, "ibv_open_device");
	ibv_free_device_list(list);
	p.pd = ibv_alloc_pd(context);
	need(p.pd, "ibv_alloc_pd");
	p.cq = ibv_create_cq(context, cqe, NULL, NULL, 0);
	need(p.cq, "ibv_create_cq");
	p.mr = ibv_reg_mr(p.pd, memory, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	need(p.mr, "ibv_reg_mr");
	need(!ibv_query_gid(context, 1, 0, &p.gid), "ibv_query_gid");
	return p;
}

static inline struct ibv_qp *plain_qp(const struct plain *p, uint32_t sends, uint32_t receives)
{
	struct ibv_qp_init_attr init = {
		.send_cq = p->cq,
		.recv_cq = p->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = sends, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(p->pd, &init);

	need(qp, "ibv_create_qp");
	return qp;
}

/* To the queue pair of that number at that address. */
static inline void plain_connect_to(struct ibv_qp *qp, uint32_t qpn, union ibv_gid gid)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = qpn,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 1,
				  .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}}};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};

	need(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "to INIT");
	need(!ibv_modify_qp(qp, &rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "to RTR");
	need(!ibv_modify_qp(qp, &rts,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC),
	     "to RTS");
}

/* To a queue pair of this host. */
static inline void plain_connect(const struct plain *p, struct ibv_qp *qp, uint32_t qpn)
{
	plain_connect_to(qp, qpn, p->gid);
}

#endif
