/* One-sided operations on a neighbour's memory: done by whoever posts them, without a packet. Only when nothing earlier is
 * outstanding, so that they are in order: as they are posted, or when what was before them is done. Whatever does not fit
 * goes the usual way, which knows what is wrong.
 *
 * Long SENDs: the packet says where the payload lies, and the receiver fetches it in one copy. The sender's memory is there
 * until the request is complete, as of any on RC. Who cannot fetch it asks for the packet again (a sequence NAK, which means
 * nothing else between neighbours), and is sent the payload from then on.
 * SPDX-License-Identifier: BSD-2-Clause */
#include "base/trace.h"
#include "engine/internal.h"
#include "memory/copy.h"
#include "memory/reach.h"

/* What each work request needs on either side. */
static const struct {
	unsigned remote, local;
	bool possible;
} needs[] = {
	[IBV_WR_RDMA_WRITE] = {IBV_ACCESS_REMOTE_WRITE, 0, true},
	[IBV_WR_RDMA_READ] = {IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE, true},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE, true},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE, true},
};

/* Bytes, from which on it is faster to fetch a payload: from memory that is mapped here, or not. */
#define REFER_MAPPED 1024u
#define REFER_COPIED 32768u

/* A request's own memory while it is in use. */
struct hold {
	struct mr *mr[HCA_MAX_SGE];
	struct iovec iov[HCA_MAX_SGE];
	uint32_t mrs, iovs;
};

static void let_go(struct hold *h)
{
	while (h->mrs)
		mr_put(h->mr[--h->mrs]);
}

/* Of these SGEs, `length` bytes from `offset` on. */
static bool take_hold(struct qp *qp, const struct ibv_sge *sge, uint32_t count, uint64_t offset, uint32_t length,
		      unsigned access, struct hold *h)
{
	h->mrs = h->iovs = 0;
	for (uint32_t i = 0; length && i < count; i++) {
		uint64_t at = sge[i].addr + offset;
		struct mr *mr;
		uint32_t n;

		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		n = min_of(length, (uint32_t)(sge[i].length - offset));
		mr = mr_get(qp->hca, sge[i].lkey);
		if (likely(mr))
			h->mr[h->mrs++] = mr;
		if (unlikely(!mr || mr_is_indirect(mr) || !mr_allows(mr, qp->pd, at, n, access | MR_LOCAL))) {
			let_go(h);
			return false;
		}
		h->iov[h->iovs++] = (struct iovec){mr_at(mr, at), n};
		length -= n;
		offset = 0;
	}
	return true;
}

static bool hold_request(struct qp *qp, const struct wqe *w, struct hold *h)
{
	if (w->flags & IBV_SEND_INLINE) {
		h->mrs = 0;
		h->iovs = 1;
		h->iov[0] = (struct iovec){(void *)w->sge, w->length};
		return true;
	}
	return take_hold(qp, w->sge, w->num_sge, 0, w->length, needs[w->opcode].local, h);
}

static bool atomic(const struct wqe *w, const struct reach_span *span, const struct hold *h)
{
	uint64_t before;
	const char *from = (const char *)&before;

	if (!span->at)
		return false;
	before = w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD
			 ? atomic_fetch_add_at(span->at, w->compare_add)
			 : atomic_compare_swap_at(span->at, w->compare_add, w->swap);
	for (uint32_t i = 0; i < h->iovs; i++) {
		memcpy(h->iov[i].iov_base, from, h->iov[i].iov_len);
		from += h->iov[i].iov_len;
	}
	return true;
}

static bool perform(struct qp *qp, const struct wqe *w, const struct reach_span *span, const struct hold *h)
{
	switch (w->opcode) {
	case IBV_WR_RDMA_WRITE:
		return reach_write(qp->reach, span, h->iov, h->iovs, w->length);
	case IBV_WR_RDMA_READ:
		return reach_read(qp->reach, span, h->iov, h->iovs, w->length);
	default:
		return atomic(w, span, h);
	}
}

/* What the usual way would refuse, or do without looking at the key. */
static bool is_ordinary(const struct qp *qp, const struct wqe *w)
{
	if (w->length == 0 || w->length > HCA_MAX_MESSAGE)
		return false;
	if (w->opcode == IBV_WR_RDMA_WRITE)
		return true;
	if (!qp->attr.max_rd_atomic)
		return false;
	return w->opcode == IBV_WR_RDMA_READ || (w->length == sizeof(uint64_t) && !(w->remote_addr & 7));
}

bool direct_possible(const struct qp *qp, const struct wqe *w)
{
	/* who traces wants to see packets */
	return qp->reach && qp->state == IBV_QPS_RTS && w->opcode < ARRAY_SIZE(needs) && needs[w->opcode].possible &&
	       is_ordinary(qp, w) && !trace_on;
}

bool direct_perform(struct qp *qp, const struct wqe *w)
{
	struct reach_span span;
	struct hold hold;
	bool done = false;

	if (!hold_request(qp, w, &hold))
		return false;
	if (reach_enter(qp->reach, &qp->reach_pair, w->rkey, w->remote_addr, w->length, needs[w->opcode].remote, &span)) {
		done = perform(qp, w, &span, &hold);
		reach_leave(qp->reach);
	}
	let_go(&hold);
	return done;
}

bool engine_place(struct qp *qp, const struct iovec *from, unsigned count, uint32_t length, uint64_t address, uint32_t rkey)
{
	struct reach_span span;
	bool done;

	if (!qp->reach || qp->state != IBV_QPS_RTS || trace_on)
		return false;
	if (!reach_enter(qp->reach, &qp->reach_pair, rkey, address, length, IBV_ACCESS_REMOTE_WRITE, &span))
		return false;
	done = reach_write(qp->reach, &span, from, count, length);
	reach_leave(qp->reach);
	return done;
}

static bool is_send(const struct wqe *w)
{
	return w->opcode == IBV_WR_SEND || w->opcode == IBV_WR_SEND_WITH_IMM || w->opcode == IBV_WR_SEND_WITH_INV;
}

bool direct_refers(const struct qp *qp, const struct wqe *w)
{
	enum share_way way = SHARE_MAPPED;

	if (w->length < REFER_MAPPED || !is_send(w) || (w->flags & IBV_SEND_INLINE) || !qp->reach || !qp->req.lossless ||
	    qp->req.plain)
		return false;
	for (uint32_t i = 0; i < w->num_sge; i++)
		if (w->sge[i].length)
			way = min_of(way, share_way(qp->hca->share, w->sge[i].lkey, w->sge[i].addr, w->sge[i].length));
	return way == SHARE_MAPPED ||
	       (way == SHARE_COPIED && w->length >= REFER_COPIED && reach_has_process_vm(qp->reach));
}

/* Bytes of the neighbour's into the receive, from `offset` on. */
static bool fetch(struct qp *qp, const struct packet_piece *piece, uint64_t offset)
{
	const struct rwqe *to = qp->resp.recv;
	struct reach_span span;
	struct hold hold;
	bool done = false;

	if (!take_hold(qp, to->sge, to->num_sge, offset, piece->length, IBV_ACCESS_LOCAL_WRITE, &hold))
		return false;
	if (reach_enter(qp->reach, &qp->reach_pair, piece->lkey, piece->address, piece->length, 0, &span)) {
		done = reach_read(qp->reach, &span, hold.iov, hold.iovs, piece->length);
		reach_leave(qp->reach);
	}
	let_go(&hold);
	return done;
}

bool direct_fetch(struct qp *qp, const struct packet *p)
{
	const struct packet_piece *piece = (const struct packet_piece *)p->payload;
	uint64_t offset = qp->resp.received;

	if (!qp->reach)
		return false;
	for (uint32_t i = 0; i < p->pieces; offset += piece[i++].length)
		if (!fetch(qp, &piece[i], offset))
			return false;
	/* a request that failed meanwhile does not keep its memory */
	return reach_is_open(qp->reach, &qp->reach_pair);
}

void engine_reach(struct qp *qp, struct reach *reach)
{
	if (qp->transport != TRANSPORT_RC || qp->reach == reach)
		return;
	qp->reach = reach;
	qp->req.plain = false;
	qp->reach_pair = (struct reach_pair){
		.qp = qp->attr.dest_qp_num & 0xffff,
		.pair = share_pair(qp->path.dgid.raw, qp->attr.dest_qp_num, qp->path.sgid.raw, qp->base.qp_num),
	};
}
