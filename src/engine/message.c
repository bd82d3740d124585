/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/message.h"

#include "base/trace.h"
#include "engine/complete.h"
#include "engine/onesided.h"
#include "memory/copy.h"
#include "object/sge.h"
#include "object/window.h"

enum verdict check_receive(struct qp *qp, const struct packet *p)
{
	struct responder *r = &qp->resp;
	uint32_t flags = flags_of(p);
	bool needs = ((flags & IS_SEND) && (flags & IS_FIRST)) || ((flags & IS_WRITE) && (flags & HAS_IMM));

	if (!needs || r->has_recv)
		return ACCEPT;
	return take_receive(qp, p) ? ACCEPT : NOT_READY;
}

static enum verdict execute_send(struct qp *qp, const struct packet *p)
{
	struct responder *r = &qp->resp;

	if (flags_of(p) & IS_FIRST)
		r->received = 0;
	if (unlikely(p->pieces)) {
		if (!onesided_fetch(qp, p))
			return GAP;
	} else if (!sge_scatter(qp->hca, receive_pd(qp), r->recv->sge, r->recv->num_sge, r->received, p->payload,
				p->length)) {
		return BAD_RECEIVE;
	}
	if ((flags_of(p) & HAS_IETH) && !window_invalidate(qp->hca, target_pd(qp), qp->serial, p->inv_rkey))
		return BAD_INVALIDATE;
	trace(execute, qp->base.qp_num, p->psn.v, p->opcode, r->received, p->length, 0);
	r->received += p->length;
	return ACCEPT;
}

static enum verdict execute_write(struct qp *qp, const struct packet *p)
{
	struct responder *r = &qp->resp;
	struct mr *mr;
	char *at;
	bool ok;

	if (flags_of(p) & IS_FIRST) {
		r->received = 0;
		r->write_va = p->va;
		r->write_rkey = p->rkey;
		r->write_left = p->dma_length;
	}
	if (p->length) {
		mr = remote_region(qp, r->write_rkey, r->write_va, p->length, IBV_ACCESS_REMOTE_WRITE, &at);
		if (!mr) /* the region was there when the message began */
			return ACCESS_DENIED;
		ok = unlikely(p->pieces) ? onesided_fetch_to(qp, p, mr, at) : mr_write(mr, at, p->payload, p->length);
		mr_put(mr);
		if (!ok)
			return p->pieces ? GAP : ACCESS_DENIED;
	}
	trace(execute, qp->base.qp_num, p->psn.v, p->opcode, r->write_va, p->length, 0);
	r->write_va += p->length;
	r->write_left -= p->length;
	r->received += p->length;
	return ACCEPT;
}

static enum verdict execute_atomic(struct qp *qp, const struct packet *p)
{
	struct responder *r = &qp->resp;
	char *at;
	struct mr *mr = remote_region(qp, p->rkey, p->va, sizeof(uint64_t), IBV_ACCESS_REMOTE_ATOMIC, &at);
	struct memory_atomic access = {
		.at = at,
		.is_add = OPERATION(p->opcode) == OP_FETCH_ADD,
		.compare = p->compare,
		.swap_add = p->swap_add,
	};
	bool ok;

	if (!mr)
		return ACCESS_DENIED;
	ok = mr_atomic(mr, &access);
	mr_put(mr);
	if (!ok)
		return ACCESS_DENIED;
	*next_answer(r) = (struct answer_record){.psn = p->psn, .packets = 1, .value = access.before};
	trace(execute, qp->base.qp_num, p->psn.v, p->opcode, p->va, sizeof(uint64_t), 0);
	respond(r,
		&(struct response){
			.kind = RESPOND_ATOMIC, .psn = p->psn, .value = access.before, .msn = (r->msn + 1) & PSN_MASK});
	return ACCEPT;
}

/* A19: aligned, so mr_write() stores all bytes at once. A duplicate is answered, but not executed again. */
static enum verdict execute_atomic_write(struct qp *qp, const struct packet *p)
{
	char *at;
	struct mr *mr = remote_region(qp, p->rkey, p->va, p->length, IBV_ACCESS_REMOTE_WRITE, &at);
	bool ok;

	if (!mr)
		return ACCESS_DENIED;
	ok = mr_write(mr, at, p->payload, p->length);
	mr_put(mr);
	trace(execute, qp->base.qp_num, p->psn.v, p->opcode, p->va, p->length, 0);
	return ok ? ACCEPT : ACCESS_DENIED;
}

enum verdict execute(struct qp *qp, const struct packet *p)
{
	uint32_t flags = flags_of(p);

	if (flags & IS_SEND)
		return execute_send(qp, p);
	if (flags & IS_WRITE)
		return execute_write(qp, p);
	if (flags & IS_ATOMIC)
		return execute_atomic(qp, p);
	if (flags & IS_ATOMIC_WRITE)
		return execute_atomic_write(qp, p);
	return ACCEPT; /* a READ is executed when its responses are made */
}

void message_advance(struct qp *qp, const struct packet *p)
{
	uint32_t flags = flags_of(p);

	qp->resp.inbound = flags & IS_LAST ? INBOUND_NONE : flags & IS_SEND ? INBOUND_SEND : INBOUND_WRITE;
	if ((flags & IS_LAST) && ((flags & IS_SEND) || ((flags & IS_WRITE) && (flags & HAS_IMM))))
		complete_receive(qp, p);
}
