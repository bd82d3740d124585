/* SPDX-License-Identifier: BSD-2-Clause */
/* Moves of a requester's cursor: packets that are sent, request an acknowledgement, or are acknowledged. With
 * qp->lock. */
#ifndef UROCE_ENGINE_CURSOR_H
#define UROCE_ENGINE_CURSOR_H

#include "engine/congestion.h"

/* Reasons to send packets again, as the trace shows them. */
enum retry_reason { RETRY_NAK, RETRY_GAP, RETRY_TIMEOUT, RETRY_PROBE, RETRY_RNR, RETRY_SELECTIVE, RETRY_PATH };

/* Notes packets that have left, new or again; `charge`: their weight in bytes. */
static inline void requester_sent(struct requester *r, uint32_t packets, uint32_t charge)
{
	r->flight += charge;
	r->next = psn_add(r->next, packets);
	if (unlikely(psn_diff(r->next, r->high) <= 0))
		return; /* sent again */
	r->high = r->next;
}

/* Notes that the message at the cursor has left as a whole. */
static inline void requester_sent_whole(struct qp *qp)
{
	struct requester *r = &qp->req;

	r->packet = 0;
	if (likely(++r->wqe == qp->sq.tail))
		r->peer_spoke = false;
}

/* Notes that a request for an acknowledgement covers all packets sent so far. */
static inline void requester_asked(struct requester *r, psn_t end)
{
	r->unasked = 0;
	r->asked = end;
}

/* Notes the acknowledgement of `packets` from una on, which weigh `charge` bytes. True: the cursor stood before them,
 * as it went back. */
static inline bool requester_acknowledged(struct requester *r, uint32_t packets, uint32_t charge)
{
	bool behind;

	r->una = psn_add(r->una, packets);
	behind = psn_diff(r->next, r->una) < 0;
	r->flight = behind || charge > r->flight ? 0 : r->flight - charge;
	grow_window(r, charge);
	if (unlikely(r->board) && psn_equal(r->una, r->high))
		scoreboard_rest(r);
	return behind;
}

/* Reports SQ_DRAINED, once, when a QP in SQD has nothing on the way. */
void settle_drain(struct qp *qp) REQUIRES(qp->lock);

#endif
