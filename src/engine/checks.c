/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/checks.h"

#include "object/window.h"

/* PSNs that a request takes: the number of packets for the data that it asks for or refers to. */
uint32_t request_span(const struct qp *qp, const struct packet *p)
{
	if (flags_of(p) & IS_READ)
		return packets_of(mtu_of(qp, p), p->dma_length);
	return p->pieces ? packets_of(mtu_of(qp, p), p->length) : 1;
}

/* Requests whose duplicates are compared with a record, at whatever PSN: a READ takes up to 2^23 PSNs. */
static bool is_recorded(const struct packet *p)
{
	return flags_of(p) & (IS_READ_LIKE | IS_ATOMIC);
}

bool asks_again(const struct qp *qp, const struct packet *p)
{
	const struct answer_record *a = find_answer(&qp->resp, p->psn, true);
	uint64_t skipped = a ? (uint64_t)(uint32_t)psn_diff(p->psn, a->psn) * a->mtu : 0;

	return a && p->rkey == a->rkey && p->va == a->va + skipped && skipped + bytes_asked(p) <= a->length;
}

enum verdict check_psn(const struct qp *qp, const struct packet *p)
{
	int32_t ahead = psn_diff(p->psn, qp->resp.expected);

	if (likely(ahead == 0))
		return ACCEPT;
	if (!psn_is_near(ahead) && qp->resp.expected.v != qp->attr.rq_psn && !(ahead < 0 && is_recorded(p)))
		return SILENT;
	return ahead < 0 ? DUPLICATE : qp->resp.refused ? SILENT : GAP;
}

/* 9.7.4.1.2: first, middle and last come in that order, and are of one kind */
enum verdict check_sequence(const struct qp *qp, const struct packet *p)
{
	static const uint32_t kind[] = {
		[INBOUND_NONE] = 0,
		[INBOUND_SEND] = IS_SEND,
		[INBOUND_WRITE] = IS_WRITE,
	};
	uint32_t flags = flags_of(p), inside = kind[qp->resp.inbound];

	if (!inside)
		return flags & IS_FIRST ? ACCEPT : BAD_REQUEST;
	return (flags & inside) && !(flags & IS_FIRST) ? ACCEPT : BAD_REQUEST;
}

/* 9.7.4.1.3: what the QP allows, and whether there is an entry for the response */
enum verdict check_operation(struct qp *qp, const struct packet *p)
{
	uint32_t flags = flags_of(p);
	unsigned need = flags & (IS_WRITE | IS_ATOMIC_WRITE) ? IBV_ACCESS_REMOTE_WRITE
			: flags & IS_READ		     ? IBV_ACCESS_REMOTE_READ
			: flags & IS_ATOMIC		     ? IBV_ACCESS_REMOTE_ATOMIC
							     : 0;

	if ((qp->attr.qp_access_flags & need) != need)
		return BAD_REQUEST;
	if ((flags & (IS_READ_LIKE | IS_ATOMIC)) && !make_room(&qp->resp))
		return BAD_REQUEST;
	if ((flags & (IS_ATOMIC | IS_ATOMIC_WRITE)) && (p->va & 7))
		return BAD_REQUEST;
	return ACCEPT;
}

/* A14, XRC: the SRQ that every packet names must exist, in the QP's domain, and be the same for all packets of a
 * message. leave_srq() ends its use. */
enum verdict check_srq(struct qp *qp, const struct packet *p)
{
	struct xrc *x = qp->xrc;

	if (likely(!is_xrc_target(qp)))
		return ACCEPT;
	if (!(flags_of(p) & IS_FIRST) && p->srqn != x->srqn)
		return BAD_REQUEST;
	x->srqn = p->srqn;
	x->srq = srq_enter(qp->hca, p->srqn, &x->domain);
	return x->srq ? ACCEPT : BAD_REQUEST;
}

void leave_srq(struct qp *qp)
{
	struct srq *srq = xrc_srq(qp);

	if (likely(!srq))
		return;
	srq_leave(srq);
	qp->xrc->srq = NULL;
}

/* 9.7.4.1.6: all packets except the last are full; a message is as long as announced, and no longer than its
 * receive */
enum verdict check_length(const struct qp *qp, const struct packet *p)
{
	const struct responder *r = &qp->resp;
	uint32_t flags = flags_of(p);
	uint32_t before = flags & IS_FIRST ? 0 : r->received;
	uint64_t full = (uint64_t)request_span(qp, p) * mtu_of(qp, p);

	if (flags & IS_ATOMIC_WRITE)
		return p->length == sizeof(uint64_t) && p->dma_length == p->length ? ACCEPT : BAD_REQUEST;
	if (!(flags & (IS_SEND | IS_WRITE)))
		return p->dma_length > HCA_MAX_MESSAGE && (flags & IS_READ) ? BAD_REQUEST : ACCEPT;
	if (flags & IS_LAST ? p->length > full : p->length != full)
		return BAD_REQUEST;
	if ((flags & IS_LAST) && !(flags & IS_FIRST) && p->length == 0)
		return BAD_REQUEST;
	if (flags & IS_WRITE) {
		uint32_t left = flags & IS_FIRST ? p->dma_length : r->write_left;

		if (left > HCA_MAX_MESSAGE || (flags & IS_LAST ? p->length != left : p->length >= left))
			return BAD_REQUEST;
		return ACCEPT;
	}
	return (uint64_t)before + p->length > r->recv->length ? TOO_LONG : ACCEPT;
}

struct mr *remote_region(const struct qp *qp, uint32_t rkey, uint64_t va, uint64_t length, unsigned access, char **at)
{
	struct mr *mr = mr_get(qp->hca, rkey);

	if (mr && !mr_allows(mr, target_pd(qp), va, length, access)) {
		mr_put(mr);
		return NULL;
	}
	if (!mr)
		return NULL;
	*at = mr_at(mr, va);
	return unlikely(mr->type) ? window_enter(mr, qp->serial) : mr;
}

static bool remote_allowed(const struct qp *qp, uint32_t rkey, uint64_t va, uint64_t length, unsigned access)
{
	char *at;
	struct mr *mr = remote_region(qp, rkey, va, length, access, &at);

	if (mr)
		mr_put(mr);
	return mr;
}

/* 9.7.4.1.5: the R_Key of an empty access is not checked */
enum verdict check_rkey(const struct qp *qp, const struct packet *p)
{
	uint32_t flags = flags_of(p);
	uint64_t length = flags & IS_ATOMIC ? sizeof(uint64_t) : p->dma_length;
	unsigned access = flags & IS_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC
			  : flags & IS_READ ? IBV_ACCESS_REMOTE_READ
					    : IBV_ACCESS_REMOTE_WRITE;

	if (!(flags & (HAS_RETH | HAS_ATOMICETH)) || length == 0)
		return ACCEPT;
	return remote_allowed(qp, p->rkey, p->va, length, access) ? ACCEPT : ACCESS_DENIED;
}
