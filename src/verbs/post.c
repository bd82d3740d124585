/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting work requests. */
#include "engine/engine.h"
#include "loop/loop.h"
#include "verbs/context.h"

int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *qp = (struct qp *)base;
	int error = 0;

	qp_fetch(qp);
	lock_take(&qp->lock);
	if (wr && wr->opcode != IBV_WR_SEND)
		wr = engine_post_onesided(qp, wr);
	if (wr)
		wr = loop_post_straight(qp, wr);
	if (wr && !loop_post_short(qp, wr)) {
		loop_posting(qp);
		error = engine_post_send(qp, wr, bad);
		loop_posted(qp); /* after an error as well: those before the bad one are posted */
	}
	lock_drop(&qp->lock);
	return error;
}

bool post_placed(struct ibv_qp *base, const struct iovec *from, unsigned count, uint32_t length, uint64_t address,
		 uint32_t rkey)
{
	struct qp *qp = (struct qp *)base;
	bool placed;

	lock_take(&qp->lock);
	loop_posting(qp);
	placed = engine_place(qp, from, count, length, address, rkey);
	lock_drop(&qp->lock);
	return placed;
}

int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *qp = (struct qp *)base;
	int error;

	lock_take(&qp->lock);
	error = engine_post_recv(qp, wr, bad);
	lock_drop(&qp->lock);
	return error;
}
