/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC target QPs whose messages name SRQs of other processes of the domain: docs/xrc.md. Packets go by the QP's number
 * to the process that made the QP, the owner. A message acts on the process whose SRQ it names. So the QP's responder
 * moves there, to a delegate: a whole QP of that process that looks to the peer like the owner's.
 *
 * The owner passes packets on, each with all that a new delegate must know. The delegate answers the peer itself, and
 * reports its progress to the owner. The responder moves between messages, when all has been answered: a packet that
 * comes earlier is dropped, and requested again when the report says that the responder may move. If the process of a
 * delegate dies, its last report counts: a delegate reports before it acknowledges. Every function needs rx
 * ownership. */
#ifndef UROCE_PORT_TARGET_H
#define UROCE_PORT_TARGET_H

#include "host/handover.h"
#include "loop/loop.h"

/* In the owner: true if a packet for its QP is not for its own engine; the packet has then been passed on or
 * dropped. */
bool target_route(struct loop *l, struct qp *qp, const struct packet *p, const union ibv_gid *from)
	REQUIRES(qp->lock, l->receive);
/* In the owner: takes a delegate's report. */
void target_heard(struct loop *l, const struct handover_report *r, uint64_t now) REQUIRES(l->receive);

/* In the process with the SRQ: the delegate for a packet that was passed on, locked; NULL: none, and the packet is
 * dropped. */
struct qp *target_delegate(struct loop *l, const struct handover_pass *h) REQUIRES(l->receive);
/* In that process: reports the changes, then acknowledges, after all packets that came together have been received. */
void target_run(struct loop *l, struct qp *delegate, uint64_t now) REQUIRES(delegate->lock, l->receive);
/* In that process: sends the report that the owner asks for. */
void target_asked(struct loop *l, const struct handover_ask *a) REQUIRES(l->receive);
/* target_forget_port(): stops delegates from sending through a port that closes. target_fini(): destroys all
 * delegates. */
void target_forget_port(struct loop *l, const struct port *port) REQUIRES(l->receive);
void target_fini(struct loop *l);

#endif
