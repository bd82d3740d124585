/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of a request from the peer, each with its rule in IBTA volume 1. The table of outcomes in responder.c has
 * what RC does for each verdict. With qp->lock. */
#ifndef UROCE_ENGINE_CHECKS_H
#define UROCE_ENGINE_CHECKS_H

#include "engine/answers.h"
#include "engine/wqe.h"
#include "object/early.h"
#include "object/mr.h"
#include "wire/packet.h"

enum verdict {
	ACCEPT = 0,
	DUPLICATE,
	GAP,
	SILENT,		/* drop silently */
	NOT_READY,	/* no receive posted */
	BAD_REQUEST,	/* opcode out of sequence, not allowed here, bad length */
	TOO_LONG,	/* longer than the receive */
	ACCESS_DENIED,	/* key, bounds, rights */
	BAD_RECEIVE,	/* the receive's own SGEs are wrong */
	BAD_INVALIDATE, /* the key to be invalidated is of no window that this QP may use */
	VERDICTS
};

enum verdict check_sequence(const struct qp *qp, const struct packet *p);
enum verdict check_operation(struct qp *qp, const struct packet *p);
enum verdict check_length(const struct qp *qp, const struct packet *p);
enum verdict check_rkey(const struct qp *qp, const struct packet *p);
/* The region of a key, itself or by a window, if it allows the access; else NULL. *at: address of the bytes. */
struct mr *remote_region(const struct qp *qp, uint32_t rkey, uint64_t va, uint64_t length, unsigned access, char **at);

/* The domain for arriving requests; of XRC, that of the SRQ that the packet names. */
static inline struct pd *target_pd(const struct qp *qp)
{
	const struct srq *srq = xrc_srq(qp);

	return unlikely(srq) ? pd_domain(srq->pd) : qp->pd;
}

/* The domain for the memory of receives; of an SRQ, the SRQ's. */
static inline struct pd *receive_pd(const struct qp *qp)
{
	return unlikely(qp->srq) ? pd_domain(qp->srq->pd) : target_pd(qp);
}

/* True if a PSN at this distance from the expected one may be the peer's: uroce has no more in flight. */
static inline bool psn_is_near(int32_t ahead)
{
	return ahead > -(int32_t)SELECTIVE_PSNS && ahead < (int32_t)SELECTIVE_PSNS;
}
/* True if `psn` lies in [from, to). */
static inline bool psn_is_between(psn_t psn, psn_t from, psn_t to)
{
	return psn_diff(psn, from) >= 0 && psn_diff(psn, to) < 0;
}

/* Requests that READ responses answer. */
#define IS_READ_LIKE (IS_READ | IS_ATOMIC_WRITE)

static inline uint32_t flags_of(const struct packet *p)
{
	return opcode_info[p->opcode].flags;
}
/* Bytes in a full packet of the link by which this one came. */
static inline uint32_t mtu_of(const struct qp *qp, const struct packet *p)
{
	return p->mtu ?: qp->mtu;
}
/* Bytes that the responses to the request carry. */
static inline uint32_t bytes_asked(const struct packet *p)
{
	return flags_of(p) & IS_ATOMIC_WRITE ? 0 : p->dma_length;
}
/* PSNs that a request takes: the number of packets for the data that it asks for or refers to. */
uint32_t request_span(const struct qp *qp, const struct packet *p);
/* 9.7.4.1.1, PSN. One too far off for any peer is a stranger's guess, and gets no answer. Before the first packet has
 * come in order, the answer tells a peer that begins with another PSN. */
enum verdict check_psn(const struct qp *qp, const struct packet *p);
/* True if a READ requests the same bytes again, or the last of them. Any other is a stranger's. */
bool asks_again(const struct qp *qp, const struct packet *p);
/* A14, XRC: the SRQ that every packet names must exist, in the QP's domain, and be the same for all packets of a
 * message. leave_srq() ends its use. */
enum verdict check_srq(struct qp *qp, const struct packet *p);
void leave_srq(struct qp *qp);

#endif
