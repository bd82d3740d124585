// SPDX-License-Identifier: BSD-2-Clause
/* What the responder must refuse. */
#include <stdlib.h>
#include <string.h>

#include "exchange.h"

static void expect_refusal(struct ibv_send_wr *wr, enum ibv_wc_status status, enum ibv_wc_status or_status)
{
	struct ibv_send_wr next = *wr;
	struct ibv_wc wc;

	next.wr_id = 1;
	wr->next = &next;
	post(wr);
	wc = reap(send_cq);
	CHECK(wc.wr_id == 0 && (wc.status == status || wc.status == or_status), "refused request %d: %s", (int)wc.wr_id,
	      ibv_wc_status_str(wc.status));
	wc = reap(send_cq);
	CHECK(wc.wr_id == 1 && wc.status == IBV_WC_WR_FLUSH_ERR, "request %d behind the refused one: %s", (int)wc.wr_id,
	      ibv_wc_status_str(wc.status));
}

static void untouched(void)
{
	for (int i = 0; i < SPACE; i++)
		CHECK(!target[i], "byte %d was written", i);
}

void scenario_bad_key(void)
{
	struct ibv_sge sge;

	ready();
	peer.rkey ^= 0x5500;
	struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_WRITE, own, 2 * (uint32_t)settings.mtu + 1, 0);
	fill(own, 1, 8192 + 1);
	if (active)
		expect_refusal(&wr, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
	barrier();
	if (!active)
		untouched();
}

void scenario_bad_bounds(void)
{
	struct ibv_sge sge;

	ready();
	struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_WRITE, own, 4096, SPACE - 4095);
	fill(own, 1, 4096);
	if (active)
		expect_refusal(&wr, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
	barrier();
}

/* IBTA 9.7.4.1.5 calls it an access error, rxe an invalid request. */
void scenario_bad_access(void)
{
	struct ibv_sge sge;

	ready();
	struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_READ, own, 4, 0);
	if (active)
		expect_refusal(&wr, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR);
}

/* A SEND longer than the receive: an invalid request, which rxe calls an operational error. */
void scenario_bad_length(void)
{
	struct ibv_sge sge;

	if (!active)
		post_receive(0, target, 16);
	ready();
	struct ibv_send_wr wr = request(&sge, IBV_WR_SEND, own, 17, 0);
	if (active) {
		expect_refusal(&wr, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_OP_ERR);
	} else {
		struct ibv_wc wc = reap(recv_cq);

		CHECK(wc.status == IBV_WC_LOC_LEN_ERR || wc.status == IBV_WC_LOC_QP_OP_ERR, "short receive: %s",
		      ibv_wc_status_str(wc.status));
		CHECK(!target[16], "the byte behind the receive was written");
	}
}

/* SEND with invalidate: takes the passive end's memory window away, after which a WRITE by it is refused. */
void scenario_invalidate(void)
{
	struct ibv_mw *window = active ? NULL : ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	char can = active || window, peer_can;
	struct ibv_sge sge;

	control_swap(&can, &peer_can, 1);
	if (!can || !peer_can)
		exit(SKIP);
	if (!active)
		post_receive(0, target, 100);
	end_to_rts();
	if (!active) {
		struct ibv_send_wr bind = {.opcode = IBV_WR_BIND_MW,
					   .send_flags = IBV_SEND_SIGNALED,
					   .bind_mw = {.mw = window,
						       .rkey = ibv_inc_rkey(window->rkey),
						       .bind_info = {.mr = mr,
								     .addr = (uintptr_t)target,
								     .length = SPACE,
								     .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}}};

		post(&bind);
		reap_good(send_cq, "bind", IBV_WC_BIND_MW);
		me.window = bind.bind_mw.rkey;
	}
	control_swap(&me, &peer, sizeof(me));
	if (!active) {
		struct ibv_wc wc = reap_good(recv_cq, "send with invalidate", IBV_WC_RECV);

		/* rxe gives the kernel's own number of that flag, which is another one to user space. */
		CHECK(wc.wc_flags & (IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK), "send with invalidate: flags %x",
		      wc.wc_flags);
		CHECK(wc.invalidated_rkey == me.window, "send with invalidate: key %x", wc.invalidated_rkey);
		check_data("send with invalidate", target, 1, 60);
		check_data("write through the window", target + SLOT, 2, 3000);
		barrier();
		return;
	}
	peer.rkey = peer.window;
	fill(own, 2, 3000);
	struct ibv_send_wr write = request(&sge, IBV_WR_RDMA_WRITE, own, 3000, SLOT);
	post(&write);
	reap_good(send_cq, "write through the window", IBV_WC_RDMA_WRITE);
	fill(own, 1, 60);
	struct ibv_send_wr wr = request(&sge, IBV_WR_SEND_WITH_INV, own, 60, 0);
	wr.invalidate_rkey = peer.window;
	post(&wr);
	reap_good(send_cq, "send with invalidate", IBV_WC_SEND);
	write = request(&sge, IBV_WR_RDMA_WRITE, own, 3000, SLOT);
	expect_refusal(&write, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
	barrier();
}
