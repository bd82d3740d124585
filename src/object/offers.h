/* SPDX-License-Identifier: BSD-2-Clause */
/* The receives of an SRQ that local peers may claim (memory/claims.h): the first SHARE_RECEIVES of the queue. They have
 * left its ring, as they are used up in any order; all others wait in the ring. A peer that has claimed one stores its
 * message there, and puts its record into the ring between the processes. With rq->lock. */
#ifndef UROCE_OBJECT_OFFERS_H
#define UROCE_OBJECT_OFFERS_H

#include "object/queue.h"

struct offers;

/* Offers receives of the queue from now on, in that entry of the table. `lkey`: lkey ^ rkey of each region. */
void offers_open(struct rq *rq, struct share *share, uint32_t index, uint64_t pd, uint32_t lkey);
/* When no QP uses the queue any more, and no local peer is inside of an access. */
void offers_close(struct rq *rq);

/* Offers what the ring has, as far as there is room. While a hook listens nothing is offered. */
void offers_show(struct rq *rq);

/* Takes the first one that nobody has claimed, for a message that came as a packet. */
bool offers_take(struct rq *rq, struct rwqe *out, uint32_t *position);

/* Number of offered receives that nobody has claimed. */
uint32_t offers_unclaimed(const struct rq *rq);

/* The receive at that position, if a message for that QP has claimed it; else NULL: its sender is broken. */
const struct rwqe *offers_claimed(const struct rq *rq, uint32_t position, uint32_t qp);
/* The receive is used up. */
void offers_used(struct rq *rq, uint32_t position);

/* The next receive that was claimed for a message to that QP, and its position. *cell counts from 0 to SHARE_RECEIVES,
 * so that the search ends whatever peers claim meanwhile. NULL: there is no more. */
const struct rwqe *offers_find_claimed(const struct rq *rq, uint32_t qp, uint32_t *cell, uint32_t *position);
/* Puts all receives that were claimed for messages to that QP back into the queue, as nobody will use them. */
void offers_return(struct rq *rq, uint32_t qp);

#endif
