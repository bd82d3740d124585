/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting work requests. */
#include "verbs/post.h"

#include <errno.h>

#include "base/cause.h"
#include "base/hooks.h"
#include "device/adapter.h"
#include "engine/engine.h"
#include "fault/inject.h"
#include "fault/rule_words.h"
#include "port/post.h"
#include "verbs/context.h"
#include "verbs/table.h"

int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return loop_post_send((struct qp *)base, wr, bad);
}

/* The length of the list that this thread is posting as one; 0: none. */
static _Thread_local uint32_t batch;

/* The innermost of what `uroce check` puts around ibv_post_send(3). */
static int post_send_checked(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	uint32_t count = batch;

	batch = 0;
	return count ? loop_post_batch((struct qp *)base, wr, count, bad) : post_send(base, wr, bad);
}

int post_batch(struct ibv_qp *base, struct ibv_send_wr *wr, uint32_t count)
{
	struct ibv_send_wr *bad;
	int error;

	if (likely(!hook_is_on(HOOK_CHECK)))
		return loop_post_batch((struct qp *)base, wr, count, &bad);
	batch = count;
	error = ibv_post_send(base, wr, &bad);
	batch = 0;
	return error;
}

/* Posts requests one by one, up to the first that the adapter lacks. */
static int post_send_lacking(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr one, *refused;
	int error = 0;

	for (; wr && !error; wr = error ? wr : wr->next) {
		one = *wr;
		one.next = NULL;
		if ((unsigned)wr->opcode < 32 && adapter()->lacks >> wr->opcode & 1)
			error = because(CAUSE_SEND_OPCODE, EINVAL, "QP 0x%x: an adapter like this has no %s",
					base->qp_num, rule_word_of(&rule_requests, wr->opcode));
		else
			error = post_send(base, &one, &refused);
	}
	if (error)
		*bad = wr;
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

	if (inject_call(CALL_ibv_post_recv)) {
		*bad = wr;
		return errno;
	}
	lock_take(&qp->lock);
	error = engine_post_recv(qp, wr, bad);
	lock_drop(&qp->lock);
	return error;
}

void table_add_post(struct verbs_context *v)
{
	v->context.ops.post_send = adapter()->lacks	    ? post_send_lacking
				   : hook_is_on(HOOK_CHECK) ? post_send_checked
							    : post_send;
	v->context.ops.post_recv = post_recv;
}
