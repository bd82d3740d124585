/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to post: all signalled, of `length` bytes, to the fixture's region. */
#ifndef UROCE_TEST_REQUESTS_H
#define UROCE_TEST_REQUESTS_H

#include "fixture.h"

#define SIGNALED .send_flags = IBV_SEND_SIGNALED
#define REMOTE	 .wr.rdma = {IOVA, 0x99}

static inline struct ibv_send_wr send_of(uint64_t id, uint32_t length)
{
	return (struct ibv_send_wr){.wr_id = id, .opcode = IBV_WR_SEND, .num_sge = (int)length, SIGNALED};
}

/* From other memory than the fixture's. */
static inline struct ibv_send_wr send_from(uint64_t id, struct ibv_sge *sge)
{
	return (struct ibv_send_wr){.wr_id = id, .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 1, SIGNALED};
}

static inline struct ibv_send_wr write_of(uint64_t id, uint32_t length)
{
	return (struct ibv_send_wr){.wr_id = id, .opcode = IBV_WR_RDMA_WRITE, .num_sge = (int)length, SIGNALED, REMOTE};
}

static inline struct ibv_send_wr read_of(uint64_t id, uint32_t length)
{
	return (struct ibv_send_wr){.wr_id = id, .opcode = IBV_WR_RDMA_READ, .num_sge = (int)length, SIGNALED, REMOTE};
}

static inline struct ibv_send_wr add_of(uint64_t id, uint64_t add)
{
	struct ibv_send_wr wr = {
		.wr_id = id, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .num_sge = sizeof(uint64_t), SIGNALED};

	wr.wr.atomic.remote_addr = IOVA;
	wr.wr.atomic.rkey = 0x99;
	wr.wr.atomic.compare_add = add;
	return wr;
}

#endif
