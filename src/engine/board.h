/* SPDX-License-Identifier: BSD-2-Clause */
/* The scoreboards (object/board.h) of a requester: their bytes that are absent, their begin and end. With qp->lock. */
#ifndef UROCE_ENGINE_BOARD_H
#define UROCE_ENGINE_BOARD_H

#include "object/board.h"
#include "object/qp.h"

/* Sets the part of unacknowledged bytes that is not in the network. */
void set_absent(struct requester *r);
/* Finds the WQE, and its packet, with this PSN, which lies in [una, next). */
struct wqe *find_packet(struct qp *qp, psn_t psn, uint32_t *position, uint32_t *packet);
/* Makes r->board, empty. False: no memory. */
bool make_board(struct requester *r);
/* Forgets acknowledged packets, and takes memory for those in flight. False: no memory. */
bool board_follow(struct scoreboard *b, const struct requester *r);
/* Forgets everything: the requester goes back and sends everything again. */
void scoreboard_clear(struct qp *qp);
void scoreboard_stop(struct qp *qp);
/* Forgets acknowledged packets and sets `absent`, before the requester sends. */
void scoreboard_settle(struct qp *qp);
/* Frees the memory, when nothing is in flight. */
void scoreboard_rest(struct requester *r);
bool scoreboard_misses(const struct requester *r);

static inline bool scoreboard_has_lost(const struct requester *r)
{
	return unlikely(r->board) && scoreboard_misses(r);
}

void reassembly_clear(struct qp *qp);
void reassembly_settle(struct requester *r); /* forgets acknowledged responses */

static inline bool reassembly_can_probe(const struct requester *r)
{
	return r->reads && r->reads->works;
}

#endif
