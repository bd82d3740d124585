/* SPDX-License-Identifier: BSD-2-Clause */
/* Selective retransmission of requests, between two uroce: what a peer tells of packets that it has received out of
 * order, and which are lost and sent again (RFC 6675). With qp->lock. */
#ifndef UROCE_ENGINE_SCOREBOARD_H
#define UROCE_ENGINE_SCOREBOARD_H

#include "engine/board.h"
#include "engine/tx_batch.h"
#include "wire/sack.h"

/* Sends packets that are lost again. False: not all, as the window or the tx batch is full. */
bool scoreboard_repair(struct qp *qp, struct tx_batch *batch);
/* Whether the window lets one of them go. */
bool scoreboard_may_repair(const struct qp *qp);
/* A NAK says that this packet is missing, which the peer expects next; the board follows the requester. False: it is
 * not known to be lost, and was sent again already. */
bool scoreboard_missing(struct qp *qp, psn_t psn);
/* Nothing has been heard for long: all that the peer is not known to have is lost, or (`below`) all before what it has
 * out of order. False: there is nothing of that kind. */
bool scoreboard_lose_all(struct qp *qp, bool below);
/* A selective acknowledgement: the peer has all before `upto`, and what `sack` tells. */
void scoreboard_told(struct qp *qp, psn_t upto, const struct sack *sack, uint64_t now);

#endif
