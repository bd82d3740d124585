/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/place_last.h"

#include "engine/complete.h"
#include "engine/engine.h"

#define LAST_BYTES 8u /* bytes at the end of a WRITE that a program may wait for: a flag, a counter */

uint64_t faults_use_receive(struct qp *qp, const struct packet *p)
{
	struct responder *r = &qp->resp;

	if (qp->transport != TRANSPORT_RC || !psn_equal(p->psn, r->expected) || r->has_recv || check_sequence(qp, p) ||
	    check_operation(qp, p) || !take_receive(qp, p))
		return 0;
	return faults_use_local(qp, r->recv->sge, r->recv->num_sge, USE_WRITE, r->recv->wr_id);
}

/* Stores the last bytes of a WRITE that will be taken. */
static bool place_last_of_write(struct qp *qp, const struct packet *p, uint32_t bytes)
{
	const struct responder *r = &qp->resp;
	bool first = opcode_info[p->opcode].flags & IS_FIRST, ok;
	uint64_t va = (first ? p->va : r->write_va) + p->length - bytes;
	struct mr *mr;
	char *at;

	if (!psn_equal(p->psn, r->expected) || !(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) ||
	    check_sequence(qp, p) || check_length(qp, p) || check_rkey(qp, p))
		return false;
	mr = remote_region(qp, first ? p->rkey : r->write_rkey, va, bytes, IBV_ACCESS_REMOTE_WRITE, &at);
	if (!mr)
		return false;
	ok = mr_write(mr, at, p->payload + p->length - bytes, bytes);
	mr_put(mr);
	return ok;
}

/* The same for a SEND, whose first packet takes the receive. */
static bool place_last_of_send(struct qp *qp, const struct packet *p, uint32_t bytes)
{
	struct responder *r = &qp->resp;
	bool first = opcode_info[p->opcode].flags & IS_FIRST;
	uint32_t at = (first ? 0 : r->received) + p->length - bytes;

	if (!psn_equal(p->psn, r->expected) || check_sequence(qp, p) || check_operation(qp, p) ||
	    (first && !r->has_recv && !take_receive(qp, p)) || check_length(qp, p))
		return false;
	return sge_scatter(qp->hca, receive_pd(qp), r->recv->sge, r->recv->num_sge, at, p->payload + p->length - bytes,
			   bytes);
}

/* The same for the next READ response. */
static bool place_last_of_read(struct qp *qp, const struct packet *p, uint32_t bytes)
{
	const struct requester *r = &qp->req;
	const struct wqe *w = sq_at(&qp->sq, qp->sq.head);
	uint64_t offset = (uint64_t)r->acked * r->mtu;

	if (qp->state == IBV_QPS_ERR || !psn_equal(p->psn, r->una) || psn_equal(r->una, r->high) ||
	    w->opcode != IBV_WR_RDMA_READ || p->length != min_of((uint64_t)r->mtu, w->length - offset))
		return false;
	return sge_scatter(qp->hca, qp->pd, w->sge, w->num_sge, offset + p->length - bytes,
			   p->payload + p->length - bytes, bytes);
}

bool engine_place_last(struct qp *qp, const struct packet *p)
{
	uint32_t flags = opcode_info[p->opcode].flags, bytes = min_of(p->length - 1, LAST_BYTES);

	if (qp->transport != TRANSPORT_RC || p->length < 2 || p->pieces)
		return false;
	if (flags & IS_RESPONSE)
		return place_last_of_read(qp, p, bytes);
	return flags & IS_SEND ? place_last_of_send(qp, p, bytes) : place_last_of_write(qp, p, bytes);
}
