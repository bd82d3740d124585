/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC target QPs whose messages use SRQs of other processes of the domain. The QP's number leads its packets to the
 * process that has made it: the host. But what a message does, it does to the process whose SRQ it names: the owner. So
 * the QP's responder moves there, as a guest: a QP of the owner's that looks like the host's to the peer. The host
 * passes packets on, each with all that a guest must know to begin; the guest answers the peer itself, and reports to
 * the host how far it has come. It moves on when it is between messages and has answered everything: what comes
 * before that is dropped, and asked for again when the report says so. Of a guest whose process has died the last
 * report is what counts: nothing is acknowledged before it is reported. If the host dies, another may go on in its
 * place: heir.h. Called with the receive turn. */
#ifndef UROCE_TARGET_H
#define UROCE_TARGET_H

#include "loop/internal.h"

/* Of the host: whether a packet for its QP is not for its own engine: then it has been passed on or dropped. */
bool target_route(struct loop *l, struct qp *qp, const struct packet *p, const union ibv_gid *from)
	REQUIRES(qp->lock, l->receive);
/* ... and what a guest has reported. */
void target_heard(struct loop *l, const struct handover_report *r, uint64_t now) REQUIRES(l->receive);

/* Of either: all that has come at once has been taken; what that changed is told or noted before it is acknowledged. */
void target_run(struct loop *l, struct qp *qp, uint64_t now) REQUIRES(qp->lock, l->receive);
/* Of the host that may have an heir: notes how far the QP has come. */
void target_note(struct qp *qp) REQUIRES(qp->lock);

/* Of the owner: its guest for a packet that was passed on, locked; NULL: it is not for any. */
struct qp *target_guest(struct loop *l, const struct handover_pass *h) REQUIRES(l->receive);
/* ... of which the host has lost sight, or a new one has to hear. */
void target_asked(struct loop *l, const struct handover_ask *a) REQUIRES(l->receive);
/* ... which goes into a QP that this process has inherited, if its last host passed on to us: then that is a host whose
 * own engine it is. False: nothing has come here. */
bool target_absorb(struct loop *l, struct qp *heir) REQUIRES(heir->lock, l->receive);
/* From RESET to the state that the attributes say, as another QP once was. 0 or -errno. */
int target_connect(struct qp *qp, const struct ibv_qp_attr *attr, enum ibv_qp_state to) REQUIRES(qp->lock);

/* No guest sends through that port any more; and the end of all guests. */
void target_forget_port(struct loop *l, const struct port *port) REQUIRES(l->receive);
void target_fini(struct loop *l);

#endif
