/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the fast paths share. */
#ifndef UROCE_TEST_FAST_PATH_H
#define UROCE_TEST_FAST_PATH_H

#include "engine/fast_send.h"
#include "fixture.h"

static inline struct ibv_send_wr wr_of(uint64_t id, struct ibv_sge *sge, int count)
{
	return (struct ibv_send_wr){
		.wr_id = id, .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = count, .send_flags = IBV_SEND_SIGNALED};
}

/* Of `length` bytes from the beginning of the memory; inline data need no key, so its address is that of this process.
 */
static inline struct ibv_send_wr send_of(struct fixture *f, uint64_t id, struct ibv_sge *sge, uint32_t length,
					 unsigned flags)
{
	struct ibv_send_wr wr = wr_of(id, sge, 1);

	*sge = fixture_sge(f, 0, length);
	if (flags & IBV_SEND_INLINE)
		sge->addr = (uintptr_t)f->memory;
	wr.send_flags |= flags;
	return wr;
}

static inline void fill(struct fixture *f)
{
	for (size_t i = 0; i < MEMORY; i++)
		f->memory[i] = (uint8_t)(i * 5 + 2);
}

/* `poller`: a thread that polls, or NULL. */
static inline bool give_to(struct fixture *f, struct packet p, const union ibv_gid *from, struct cq_poller *poller)
{
	bool taken;

	p.payload = f->payload;
	p.pkey = PKEY_DEFAULT;
	p.to = fixture_here.raw;
	p.opcode |= f->qp->transport;
	f->now += USEC;
	lock_take(&f->qp->lock);
	taken = p.delivered ? engine_receive_delivered(f->qp, &p, poller)
			    : engine_receive_fast(f->qp, &p, from, poller);
	lock_drop(&f->qp->lock);
	return taken;
}

static inline bool give(struct fixture *f, struct packet p)
{
	return give_to(f, p, &fixture_there, NULL);
}

static inline void share(struct fixture *f, uint64_t wr_id, uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge = {IOVA + MEMORY / 2, length, lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

	assert_int_equal(srq_post(f->srq, &wr, &bad), 0);
}

#endif
