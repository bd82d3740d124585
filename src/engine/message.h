/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: a request takes its receive, stores its payload or executes, and ends its message. For RC, UC and XRC. With
 * qp->lock. */
#ifndef UROCE_ENGINE_MESSAGE_H
#define UROCE_ENGINE_MESSAGE_H

#include "engine/checks.h"

/* 9.7.4.1.4: the first packet of a SEND takes a receive, or the last one of a WRITE with immediate. */
enum verdict check_receive(struct qp *qp, const struct packet *p);
/* Stores the payload, or executes the atomic. A READ is executed when its responses are made. */
enum verdict execute(struct qp *qp, const struct packet *p);
/* Moves the message past this packet, or ends it, with its receive. */
void message_advance(struct qp *qp, const struct packet *p);

#endif
