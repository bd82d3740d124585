/* SPDX-License-Identifier: BSD-2-Clause */
/* populous N: so many processes at once, each with a queue pair whose number no other has. The last is refused nothing
 * that the first has, and each sends itself a message. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define MUST(what)                             \
	do {                                   \
		if (!(what))                   \
			fail(__LINE__, #what); \
	} while (0)

static void fail(int line, const char *what)
{
	fprintf(stderr, "populous, process %d, line %d: %s: %s\n", getpid(), line, what, strerror(errno));
	exit(1);
}

static void connect_to_itself(struct ibv_context *c, struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 1},
	};
	MUST(!ibv_query_gid(c, 1, 0, &a.ah_attr.grh.dgid));
	MUST(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	MUST(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC));
}

static void send_to_itself(struct ibv_qp *qp)
{
	struct ibv_recv_wr *bad_receive, receive = {.wr_id = 1};
	struct ibv_send_wr *bad, send = {.wr_id = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;

	MUST(!ibv_post_recv(qp, &receive, &bad_receive));
	MUST(!ibv_post_send(qp, &send, &bad));
	for (int done = 0; done < 2;) {
		int n = ibv_poll_cq(qp->send_cq, 1, &wc);

		MUST(n >= 0 && (n == 0 || wc.status == IBV_WC_SUCCESS));
		done += n;
	}
}

/* Tells its number, and stays until all have. */
static void live(int tell, int stay)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *c = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	struct ibv_pd *pd = c ? ibv_alloc_pd(c) : NULL;
	struct ibv_cq *cq = pd ? ibv_create_cq(c, 4, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = cq ? ibv_create_qp(pd, &attr) : NULL;
	char byte;

	MUST(qp);
	connect_to_itself(c, qp);
	MUST(write(tell, &qp->qp_num, sizeof(qp->qp_num)) == sizeof(qp->qp_num));
	MUST(read(stay, &byte, 1) == 0);
	send_to_itself(qp);
	MUST(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(c));
	exit(0);
}

int main(int argc, char **argv)
{
	static uint8_t seen[1 << 24];
	int processes = argc == 2 ? atoi(argv[1]) : 0, told[2], stay[2], status;
	uint32_t number;

	MUST(processes > 0 && !pipe(told) && !pipe(stay));
	for (int i = 0; i < processes; i++) {
		pid_t child = fork();

		MUST(child >= 0);
		if (child == 0) {
			close(stay[1]);
			close(told[0]);
			live(told[1], stay[0]);
		}
	}
	close(told[1]);
	for (int i = 0; i < processes; i++) {
		MUST(read(told[0], &number, sizeof(number)) == sizeof(number));
		MUST(number > 1 && number < 1 << 24 && !seen[number]);
		seen[number] = 1;
	}
	close(stay[1]); /* lets them go */
	for (int i = 0; i < processes; i++) {
		MUST(wait(&status) > 0);
		MUST(status == 0);
	}
	printf("populous: %d processes\n", processes);
	return 0;
}
