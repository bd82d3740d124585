/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC target QPs whose messages name SRQs of other processes of the domain: docs/xrc.md. The QP's number leads its
 * packets to the process that has made it, the owner. A message acts on the process whose SRQ it names. So the QP's
 * responder moves there: to a delegate, a QP of that process that looks like the owner's to the peer. The owner passes
 * packets on, each with all that a delegate must know to begin. The delegate answers the peer itself, and reports to
 * the owner how far it has come. The responder moves between messages, when all has been answered: a packet that comes
 * before that is dropped, and asked for again when the report says so. If the process of a delegate dies, its last
 * report counts: nothing is acknowledged before it is reported. Called with the receive turn. */
#ifndef UROCE_TARGET_H
#define UROCE_TARGET_H

#include "loop/internal.h"

/* Of the owner: whether a packet for its QP is not for its own engine: then it has been passed on or dropped. */
bool target_route(struct loop *l, struct qp *qp, const struct packet *p, const union ibv_gid *from)
	REQUIRES(qp->lock, l->receive);
/* ... and what a delegate has reported. */
void target_heard(struct loop *l, const struct handover_report *r, uint64_t now) REQUIRES(l->receive);

/* Of the process with the SRQ: its delegate for a packet that was passed on, locked; NULL: it is not for any. */
struct qp *target_delegate(struct loop *l, const struct handover_pass *h) REQUIRES(l->receive);
/* ... when all that has come for it at once has been taken: what that changed is reported before it is acknowledged. */
void target_run(struct loop *l, struct qp *delegate, uint64_t now) REQUIRES(delegate->lock, l->receive);
/* ... of which the owner has lost sight. */
void target_asked(struct loop *l, const struct handover_ask *a) REQUIRES(l->receive);
/* No delegate sends through that port any more; and the end of all delegates. */
void target_forget_port(struct loop *l, const struct port *port) REQUIRES(l->receive);
void target_fini(struct loop *l);

#endif
