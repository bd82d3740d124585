/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting work requests. */
#include <errno.h>

#include "engine/engine.h"
#include "fault/inject.h"
#include "loop/loop.h"
#include "verbs/context.h"

int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return loop_post_send((struct qp *)base, wr, bad);
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

	if (inject_call(CALL_ibv_post_recv)) {
		*bad = wr;
		return errno;
	}
	lock_take(&qp->lock);
	error = engine_post_recv(qp, wr, bad);
	lock_drop(&qp->lock);
	return error;
}
