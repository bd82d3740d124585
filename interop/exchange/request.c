// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>

#include "exchange.h"

bool poll_once(struct ibv_cq *cq, struct ibv_wc *wc)
{
	static unsigned empty;
	int n = ibv_poll_cq(cq, 1, wc);

	CHECK(n >= 0, "ibv_poll_cq gives %d", n);
	empty = n ? 0 : empty + 1;
	CHECK((empty + 1) % 65536 || control_is_open(), "the other end has gone");
	return n;
}

struct ibv_wc reap(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (!poll_once(cq, &wc))
		;
	return wc;
}

struct ibv_wc reap_good(struct ibv_cq *cq, const char *what, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = reap(cq);

	CHECK(wc.status == IBV_WC_SUCCESS, "%s: %s (vendor error %x)", what, ibv_wc_status_str(wc.status),
	      wc.vendor_err);
	CHECK(wc.opcode == opcode, "%s: completion opcode %d, not %d", what, wc.opcode, opcode);
	CHECK(wc.qp_num == qp->qp_num, "%s: completion of QP %x", what, wc.qp_num);
	return wc;
}

void post(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int rc = ibv_post_send(qp, wr, &bad);

	CHECK(!rc, "ibv_post_send, opcode %d: %s", wr->opcode, strerror(rc));
}

void post_receive(uint64_t id, void *at, uint32_t length)
{
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = length, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = length ? 1 : 0}, *bad;
	int rc = ibv_post_recv(qp, &wr, &bad);

	CHECK(!rc, "ibv_post_recv: %s", strerror(rc));
}

struct ibv_send_wr request(struct ibv_sge *sge, enum ibv_wr_opcode opcode, void *at, uint32_t length,
			   uint64_t remote_offset)
{
	*sge = (struct ibv_sge){.addr = (uintptr_t)at, .length = length, .lkey = mr->lkey};
	return (struct ibv_send_wr){.opcode = opcode,
				    .send_flags = IBV_SEND_SIGNALED,
				    .sg_list = sge,
				    .num_sge = length ? 1 : 0,
				    .wr.rdma = {.remote_addr = peer.addr + remote_offset, .rkey = peer.rkey}};
}
