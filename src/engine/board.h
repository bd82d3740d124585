/* SPDX-License-Identifier: BSD-2-Clause */
/* The scoreboards (object/board.h) beside the requester whose packets they know: what is absent, and when they are
 * made and forgotten. With qp->lock. */
#ifndef UROCE_ENGINE_BOARD_H
#define UROCE_ENGINE_BOARD_H

#include "object/board.h"
#include "object/qp.h"

/* Of the bytes that have been sent and are not acknowledged, the part that is not in the network. */
void set_absent(struct requester *r);
/* The WQE and the packet of it that have this PSN, which lies in [una, next). */
struct wqe *find_packet(struct qp *qp, psn_t psn, uint32_t *position, uint32_t *packet);
/* Makes r->board, which knows nothing yet. False: there is no memory. */
bool make_board(struct requester *r);
/* Forgets what is acknowledged, and takes memory for what is in flight. False: there is none. */
bool board_follow(struct scoreboard *b, const struct requester *r);
/* Nothing is known any more: the requester goes back and sends everything again. */
void scoreboard_clear(struct qp *qp);
void scoreboard_stop(struct qp *qp);
/* Before the requester sends: forgets what is acknowledged, and sets `absent`. */
void scoreboard_settle(struct qp *qp);
/* Nothing is in flight: gives back the memory. */
void scoreboard_rest(struct requester *r);
bool scoreboard_misses(const struct requester *r);

static inline bool scoreboard_has_lost(const struct requester *r)
{
	return unlikely(r->board) && scoreboard_misses(r);
}

void reassembly_clear(struct qp *qp);
void reassembly_settle(struct requester *r); /* forgets what is acknowledged */

static inline bool reassembly_can_probe(const struct requester *r)
{
	return r->reads && r->reads->works;
}

#endif
