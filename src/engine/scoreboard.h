/* SPDX-License-Identifier: BSD-2-Clause */
/* Selective retransmission of requests, between two uroce: takes the peer's reports of packets received out of order,
 * and sends lost packets again (RFC 6675). With qp->lock. */
#ifndef UROCE_ENGINE_SCOREBOARD_H
#define UROCE_ENGINE_SCOREBOARD_H

#include "engine/board.h"
#include "engine/tx_batch.h"
#include "wire/sack.h"

/* Sends lost packets again. False: not all, as the window or the tx batch is full. */
bool scoreboard_repair(struct qp *qp, struct tx_batch *batch);
/* True if the window lets a lost packet go. */
bool scoreboard_may_repair(const struct qp *qp);
/* Takes a NAK that says that this packet, the next that the peer expects, is missing; the board follows the requester.
 * False: not known to be lost, and sent again before. */
bool scoreboard_missing(struct qp *qp, psn_t psn);
/* Marks packets as lost after a long silence: all that the peer is not known to have, or (`below`) all before those
 * that it has out of order. False: there are none. */
bool scoreboard_lose_all(struct qp *qp, bool below);
/* Takes a selective acknowledgement: the peer has all before `upto`, and the packets in `sack`. */
void scoreboard_told(struct qp *qp, psn_t upto, const struct sack *sack, uint64_t now);

#endif
