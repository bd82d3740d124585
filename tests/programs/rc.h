// SPDX-License-Identifier: BSD-2-Clause
/* What the programs here share: one RC queue pair, connected over TCP to the same program elsewhere, or to a
 * second one in the same process. Nothing is freed: a test ends by ending. Plain libibverbs. */
#ifndef TEST_RC_H
#define TEST_RC_H

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define MUST(x) ((x) ? (void)0 : fail(__FILE__, __LINE__, #x))
#define ZERO(x) MUST(!(errno = (x)))

static inline void fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, strerror(errno));
	exit(1);
}

/* The child has ended, with that status. */
static inline void reap(pid_t child, int expected)
{
	int status;

	MUST(waitpid(child, &status, 0) == child);
	if (status != expected) {
		fprintf(stderr, "a child ended with status 0x%x, not 0x%x\n", status, expected);
		exit(1);
	}
}

struct card {
	union ibv_gid gid;
	uint32_t qpn, psn, mtu, rkey;
	uint64_t address;
};

struct rc {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory;
	size_t size;
	int gid_index;
	uint8_t timeout, retry_cnt, rnr_retry;
	bool shares; /* somebody else's context */
	struct card me, peer;
	int tcp;
};

/* `base` is an open end whose context this one shares, or NULL. */
static inline void rc_open(struct rc *rc, const struct rc *base, int gid_index, size_t size)
{
	enum {
		ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		      IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_device **list;
	struct ibv_port_attr port;

	*rc = (struct rc){.size = size, .gid_index = gid_index, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
	if (base) {
		rc->context = base->context;
		rc->shares = true;
	} else {
		setvbuf(stdout, NULL, _IOLBF, 0);
		MUST((list = ibv_get_device_list(NULL)) && list[0]);
		MUST(rc->context = ibv_open_device(list[0]));
		ibv_free_device_list(list);
	}
	MUST(rc->pd = ibv_alloc_pd(rc->context));
	MUST(!posix_memalign((void **)&rc->memory, 4096, size));
	memset(rc->memory, 0, size);
	MUST(rc->mr = ibv_reg_mr(rc->pd, rc->memory, size, ALL));
	MUST(rc->channel = ibv_create_comp_channel(rc->context));
	MUST(rc->cq = ibv_create_cq(rc->context, 512, NULL, rc->channel, 0));
	struct ibv_qp_init_attr attr = {
		.send_cq = rc->cq,
		.recv_cq = rc->cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 256, .max_recv_wr = 256, .max_send_sge = 1, .max_recv_sge = 1},
	};
	MUST(rc->qp = ibv_create_qp(rc->pd, &attr));
	ZERO(ibv_query_port(rc->context, 1, &port));
	ZERO(ibv_query_gid(rc->context, 1, gid_index, &rc->me.gid));
	rc->me.qpn = rc->qp->qp_num;
	rc->me.psn = (rc->me.qpn * 0x9e3779b1u ^ (uint32_t)getpid()) & 0xffffff;
	rc->me.mtu = port.active_mtu;
	rc->me.rkey = rc->mr->rkey;
	rc->me.address = (uintptr_t)rc->memory;

	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};
	ZERO(ibv_modify_qp(rc->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

/* With rc->peer known: INIT -> RTR -> RTS. */
static inline void rc_connect(struct rc *rc)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = rc->me.mtu < rc->peer.mtu ? rc->me.mtu : rc->peer.mtu,
		.dest_qp_num = rc->peer.qpn,
		.rq_psn = rc->peer.psn,
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = rc->peer.gid, .sgid_index = rc->gid_index, .hop_limit = 64}},
		.sq_psn = rc->me.psn,
		.timeout = rc->timeout,
		.retry_cnt = rc->retry_cnt,
		.rnr_retry = rc->rnr_retry,
		.max_rd_atomic = 8,
	};

	ZERO(ibv_modify_qp(rc->qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	ZERO(ibv_modify_qp(rc->qp, &attr,
			   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC));
}

static inline void rc_close(struct rc *rc)
{
	ZERO(ibv_destroy_qp(rc->qp));
	ZERO(ibv_destroy_cq(rc->cq));
	ZERO(ibv_destroy_comp_channel(rc->channel));
	ZERO(ibv_dereg_mr(rc->mr));
	ZERO(ibv_dealloc_pd(rc->pd));
	if (!rc->shares)
		ZERO(ibv_close_device(rc->context));
	free(rc->memory);
}

static inline void rc_connect_pair(struct rc *a, struct rc *b)
{
	a->peer = b->me;
	b->peer = a->me;
	rc_connect(a);
	rc_connect(b);
}

/* One byte each way: both ends have come this far. False: the other end is gone. */
static inline bool rc_barrier(struct rc *rc)
{
	char byte = '.';

	return send(rc->tcp, &byte, 1, MSG_NOSIGNAL) == 1 && recv(rc->tcp, &byte, 1, 0) == 1;
}

/* A server has no host. Cards go as they are: both ends are this program, on this machine. */
static inline void rc_meet(struct rc *rc, const char *host, const char *port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
	int fd;

	MUST((fd = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	if (host) {
		MUST(inet_pton(AF_INET, host, &to.sin_addr) == 1);
		MUST(!connect(fd, (struct sockaddr *)&to, sizeof(to)));
		rc->tcp = fd;
	} else {
		MUST(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)));
		MUST(!bind(fd, (struct sockaddr *)&to, sizeof(to)));
		MUST(!listen(fd, 1));
		MUST((rc->tcp = accept(fd, NULL, NULL)) >= 0);
		close(fd);
	}
	MUST(!setsockopt(rc->tcp, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)));
	MUST(send(rc->tcp, &rc->me, sizeof(rc->me), 0) == sizeof(rc->me));
	MUST(recv(rc->tcp, &rc->peer, sizeof(rc->peer), MSG_WAITALL) == sizeof(rc->peer));
	rc_connect(rc);
	MUST(rc_barrier(rc));
	printf("connected: QP 0x%06x PSN 0x%06x to QP 0x%06x PSN 0x%06x\n", rc->me.qpn, rc->me.psn, rc->peer.qpn,
	       rc->peer.psn);
}

static inline struct ibv_sge rc_piece(const struct rc *rc, size_t offset, uint32_t length)
{
	return (struct ibv_sge){.addr = rc->me.address + offset, .length = length, .lkey = rc->mr->lkey};
}

/* One request: from or to our memory at `offset`, the peer's at `remote`. Atomics add 1, or exchange 0 for 1. */
static inline void rc_post(struct rc *rc, enum ibv_wr_opcode opcode, size_t offset, size_t remote, uint32_t length)
{
	struct ibv_sge piece = rc_piece(rc, offset, length);
	struct ibv_send_wr wr = {.opcode = opcode, .sg_list = &piece, .num_sge = 1}, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		bool adds = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

		wr.wr.atomic.remote_addr = rc->peer.address + remote;
		wr.wr.atomic.rkey = rc->peer.rkey;
		wr.wr.atomic.compare_add = adds;
		wr.wr.atomic.swap = !adds;
	} else {
		wr.wr.rdma.remote_addr = rc->peer.address + remote;
		wr.wr.rdma.rkey = rc->peer.rkey;
	}
	ZERO(ibv_post_send(rc->qp, &wr, &bad));
}

static inline void rc_post_receive(struct rc *rc, size_t offset, uint32_t length)
{
	struct ibv_sge piece = rc_piece(rc, offset, length);
	struct ibv_recv_wr wr = {.wr_id = offset, .sg_list = &piece, .num_sge = 1}, *bad;

	ZERO(ibv_post_recv(rc->qp, &wr, &bad));
}

static inline struct ibv_wc rc_poll(struct rc *rc)
{
	struct ibv_wc wc;
	int n;

	do
		MUST((n = ibv_poll_cq(rc->cq, 1, &wc)) >= 0);
	while (n == 0);
	return wc;
}

/* The same, asleep in the completion channel. */
static inline struct ibv_wc rc_sleep(struct rc *rc)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	ZERO(ibv_req_notify_cq(rc->cq, 0));
	while (!ibv_poll_cq(rc->cq, 1, &wc)) {
		MUST(!ibv_get_cq_event(rc->channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
		ZERO(ibv_req_notify_cq(rc->cq, 0));
	}
	return wc;
}

static inline void rc_expect(struct ibv_wc wc, enum ibv_wc_opcode opcode)
{
	if (wc.status == IBV_WC_SUCCESS && wc.opcode == opcode)
		return;
	fprintf(stderr, "completion: %s, opcode %d; expected opcode %d\n", ibv_wc_status_str(wc.status), wc.opcode,
		opcode);
	exit(1);
}

#endif
