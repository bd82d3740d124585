/* SPDX-License-Identifier: BSD-2-Clause */
/* The far process is ended by SIGKILL: its kernel, or who stands for it, gives back what it had. */
#include <string.h>
#include <unistd.h>

#include "conform.h"
#include "connect.h"
#include "states.h"

static void of_connected(void)
{
	struct two t = make_connected();

	end_kill(far);
	event(near, RDMA_CM_EVENT_DISCONNECTED);
	expect_errno("rdma_disconnect", simple(near, CM_DISCONNECT, t.client), 0);
	expect_in_error(&t.a);
}

static void of_request(void)
{
	struct two t = make_two(RDMA_PS_TCP);

	request(&t, 0);
	end_kill(far);
	event(near, RDMA_CM_EVENT_REJECTED);
}

static void of_pending(void)
{
	struct two t = make_two(RDMA_PS_TCP);
	struct cm_call e;

	request(&t, 0);
	usleep(100000); /* an MRA has come, so the request is not repeated for seconds */
	end_kill(far);
	e = event(near, RDMA_CM_EVENT_REJECTED);
	expect("status", e.status, 28);
}

static struct pair pair_of_dead(enum ibv_qp_type type)
{
	struct pair p = make_pair(type);

	if (type == IBV_QPT_RC) {
		post_op(&p, 1, IBV_WR_RDMA_WRITE, 4096, 4096, 64, IBV_SEND_SIGNALED);
		expect_status(near, p.a.scq, 1, IBV_WC_SUCCESS);
	}
	end_kill(far);
	return p;
}

static void write_to_dead(void)
{
	struct pair p = pair_of_dead(IBV_QPT_RC);
	uint64_t until = now() + options.seconds * 300000000ull;
	struct ibv_wc wc;

	do {
		post_op(&p, 2, IBV_WR_RDMA_WRITE, 4096, 4096, 64, IBV_SEND_SIGNALED);
		wc = completion(near, p.a.scq);
	} while (!wc.status && now() < until);
	if (wc.status != IBV_WC_RETRY_EXC_ERR)
		wrong("%s", ibv_wc_status_str(wc.status));
	post_op(&p, 3, IBV_WR_RDMA_WRITE, 4096, 4096, 64, IBV_SEND_SIGNALED);
	expect_status(near, p.a.scq, 3, IBV_WC_WR_FLUSH_ERR);
}

static void wait_for_dead(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	post_op(&p, 1, IBV_WR_SEND, 4096, 0, 64, IBV_SEND_SIGNALED); /* there is no receive: rnr_retry 7 waits */
	end_kill(far);
	expect_status(near, p.a.scq, 1, IBV_WC_RETRY_EXC_ERR);
}

static void datagram_to_dead(void)
{
	struct ibv_ah_attr there = address_of(near, far);
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct pair p;

	p = pair_of_dead(IBV_QPT_UD);
	expect_errno("ibv_create_ah", try_ah(near, &there, &wr.wr.ud.ah), 0);
	wr.wr.ud.remote_qpn = p.b.num;
	wr.wr.ud.remote_qkey = 0x11111111;
	expect_errno("ibv_post_send", post(&p.a, &wr), 0);
	expect_status(near, p.a.scq, 1, IBV_WC_SUCCESS);
}

static const struct row rows[] = {
	{"cm/connected", "Linux core/ucma.c: ucma_close(); core/cm.c: cm_destroy_id(), DREQ",
	 "connect; the far process is killed; disconnect", "DISCONNECTED; err", of_connected},
	{"cm/request", "Linux core/cm.c: cm_destroy_id(), IB_CM_REQ_RCVD: REJ",
	 "connect; the far process gets the request and is killed", "REJECTED", of_request},
	{"cm/pending", "Linux core/cm.c: cm_destroy_id(), IB_CM_MRA_REQ_SENT: REJ, consumer defined",
	 "connect; the far process has the request for 0.1 s and is killed", "REJECTED, 28", of_pending},
	{"rc/write", "IBTA 9.9.2.1, 10.10.2.4: transport retry counter exceeded",
	 "the far process is killed; WRITEs until one fails, and another", "RETRY_EXC_ERR, WR_FLUSH_ERR",
	 write_to_dead},
	{"rc/send", "IBTA 9.9.2.1, 10.10.2.4", "a SEND without a receive; the far process is killed", "RETRY_EXC_ERR",
	 wait_for_dead},
	{"ud/send", "IBTA 9.8.3: unreliable", "the far process is killed; a datagram", "success", datagram_to_dead},
	{0},
};

struct group death_group = {"death", .rows = rows};
