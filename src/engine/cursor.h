/* SPDX-License-Identifier: BSD-2-Clause */
/* The cursor of a requester moves: what has been sent, what asks for an acknowledgement, what is acknowledged. With
 * qp->lock. */
#ifndef UROCE_ENGINE_CURSOR_H
#define UROCE_ENGINE_CURSOR_H

#include "engine/congestion.h"

/* Why packets are sent again, as the trace shows it. */
enum retry_reason { RETRY_NAK, RETRY_GAP, RETRY_TIMEOUT, RETRY_PROBE, RETRY_RNR, RETRY_SELECTIVE, RETRY_PATH };

/* New packets have left, or old ones again; `charge`: their weight in bytes. */
static inline void requester_sent(struct requester *r, uint32_t packets, uint32_t charge)
{
	r->flight += charge;
	r->next = psn_add(r->next, packets);
	if (unlikely(psn_diff(r->next, r->high) <= 0))
		return; /* again */
	r->high = r->next;
}

/* With them the message at the cursor has left as a whole. */
static inline void requester_sent_whole(struct qp *qp)
{
	struct requester *r = &qp->req;

	r->packet = 0;
	if (likely(++r->wqe == qp->sq.tail))
		r->peer_spoke = false;
}

/* What has been sent so far asks for an acknowledgement. */
static inline void requester_asked(struct requester *r, psn_t end)
{
	r->unasked = 0;
	r->asked = end;
}

/* `packets` from una on are acknowledged, which weigh `charge`. Whether the cursor stands before them: it went back,
 * and need not have. */
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

/* SQ_DRAINED, once, when a QP in SQD has nothing on the way. */
void settle_drain(struct qp *qp) REQUIRES(qp->lock);

#endif
