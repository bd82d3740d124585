/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations between local peers, done by the initiator, and payloads that the target fetches. With
 * qp->lock. */
#ifndef UROCE_ENGINE_ONESIDED_H
#define UROCE_ENGINE_ONESIDED_H

#include "base/trace.h"
#include "object/checker.h"
#include "object/mr.h"
#include "object/qp.h"

/* Bytes, from which on it is faster to fetch a payload from memory that is mapped than to send it. */
#define REFER_MAPPED 1024u

/* True if a work request will need no packet when all before it are done, as its peer's memory can be reached. */
bool onesided_possible(const struct qp *qp, const struct wqe *w);
/* Executes the operation. False: nothing has been done that cannot be done again; the request goes out as packets. */
bool onesided_perform(struct qp *qp, const struct wqe *w);

/* Stores the bytes of a posted SEND, or WRITE with immediate, where they belong, for a message that is delivered
 * (deliver.h): the access to the peer has begun, and stands at its receive. False: nothing is done that cannot be done
 * again. */
bool onesided_deliver(struct qp *qp, const struct ibv_send_wr *wr, uint64_t length);

/* Notes a one-sided operation that was done; every one passes here. `position`: in the send queue. */
static inline void onesided_done(const struct qp *qp, uint32_t position, uint8_t opcode, uint64_t address,
				 uint64_t length)
{
	if (!hooks_any())
		return;
	if (checker_listens())
		checker->accessed(qp, opcode, address, length);
	trace(onesided, qp->base.qp_num, position, opcode, address, length, 0);
}

/* onesided_done() of a WQE, with its data for a capture. */
void onesided_done_wqe(struct qp *qp, const struct wqe *w, uint32_t position);
/* True if the peer should fetch the payload of a SEND, in one copy. */
bool onesided_may_refer(const struct qp *qp, struct wqe *w); /* for payloads that are long enough; sets w->of_gpu */

static inline bool onesided_refers(const struct qp *qp, struct wqe *w)
{
	return w->length >= REFER_MAPPED && onesided_may_refer(qp, w);
}

/* Fetches the payload that a packet of a SEND refers to into the receive, behind the bytes received. False: the memory
 * cannot be reached (any more). */
bool onesided_fetch(struct qp *qp, const struct packet *p);
/* The same for a WRITE, to that address of a region. */
bool onesided_fetch_to(struct qp *qp, const struct packet *p, struct mr *mr, char *at);
/* The same for a payload in one piece, to `to`. False: not mapped here, or as above. */
bool onesided_fetch_piece(struct qp *qp, const struct packet_piece *piece, char *to);

#endif
