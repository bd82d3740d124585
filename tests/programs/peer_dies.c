// SPDX-License-Identifier: BSD-2-Clause
/* peer_dies PORT write|send|idle [HOST]: the client keeps requests in flight until one fails, which the test
 * brings about by killing the server. That must be IBV_WC_RETRY_EXC_ERR, and all behind it are flushed.
 * "idle" posts only after the server's death (the TCP connection tells), and sleeps for the completion. */
#include "rc.h"

enum { IN_FLIGHT = 16, SIZE = 40000 };

int main(int argc, char **argv)
{
	enum ibv_wr_opcode opcode;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint64_t good = 0, bad = 0;
	bool idle;
	struct ibv_wc wc;
	struct rc rc;

	MUST(argc >= 3);
	idle = !strcmp(argv[2], "idle");
	opcode = strcmp(argv[2], "send") ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
	rc_open(&rc, NULL, 0, SIZE);
	if (argc == 3) {
		for (int i = 0; i < 2 * IN_FLIGHT; i++)
			rc_post_receive(&rc, 0, SIZE);
		rc_meet(&rc, NULL, argv[1]);
		while (!idle && opcode == IBV_WR_SEND) {
			rc_expect(rc_poll(&rc), IBV_WC_RECV);
			rc_post_receive(&rc, 0, SIZE);
		}
		for (;;)
			pause();
	}

	rc_meet(&rc, argv[3], argv[1]);
	if (idle) {
		printf("running\n");
		MUST(!rc_barrier(&rc));
	}
	for (int i = 0; i < IN_FLIGHT; i++)
		rc_post(&rc, opcode, 0, 0, SIZE);
	while (wc = idle ? rc_sleep(&rc) : rc_poll(&rc), wc.status == IBV_WC_SUCCESS) {
		if (++good == 500)
			printf("running\n");
		rc_post(&rc, opcode, 0, 0, SIZE);
	}
	printf("after %" PRIu64 " requests: %s\n", good, ibv_wc_status_str(wc.status));
	MUST(wc.status == IBV_WC_RETRY_EXC_ERR);
	MUST(wc.qp_num == rc.qp->qp_num);
	while (++bad < IN_FLIGHT)
		MUST(rc_poll(&rc).status == IBV_WC_WR_FLUSH_ERR);
	ZERO(ibv_query_qp(rc.qp, &attr, IBV_QP_STATE, &init));
	MUST(attr.qp_state == IBV_QPS_ERR);
	ZERO(ibv_destroy_qp(rc.qp));
	return 0;
}
