/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair and the rings of its local peer: when it changes its link, sends there, waits for room. */
#ifndef UROCE_PORT_LOCAL_LINK_H
#define UROCE_PORT_LOCAL_LINK_H

#include "base/lock.h"
#include "loop/loop.h"

/* True if the QP's peer, which is in a local peer that has been met, is known to have other addresses or to be
 * connected to another QP: by UDP its packets would be dropped. */
bool local_is_astray(const struct qp *qp) REQUIRES(qp->lock);

/* Changes the link of the QP if it is time to. */
void local_meet(struct qp *qp) REQUIRES(qp->lock);

/* Decides how packets of this QP go: through the rings of qp->path.local_peer, whose lock is then held until
 * local_leave(); or NULL: by udp. Changes the link of the QP if it is time to. */
struct local_peer *local_enter(struct qp *qp) REQUIRES(qp->lock);
/* The bytes that a tx batch may put into the ring. */
uint32_t local_room(struct local_peer *n);
void local_leave(struct qp *qp, struct local_peer *n, bool full) REQUIRES(qp->lock);

/* The local peer's lock is held in the functions below. local_wait(): the QP is run when the ring has room.
 * local_peer_ring(): rings the doorbell. */
void local_wait(struct qp *qp, struct local_peer *n) REQUIRES(qp->lock);
/* The QP is being run, so it waits no longer. */
void local_wait_no_more(struct qp *qp) REQUIRES(qp->lock);

/* Whether the local peer has not read yet what this QP sent last. */
bool local_is_unseen(const struct qp *qp) REQUIRES(qp->lock);

/* Makes those QPs ready that waited for room in a ring which has room again. */
void local_unstick(struct loop *l) REQUIRES(l->receive);
/* Before the thread sleeps on `doorbell`. True: something is there already, so it must not sleep. */
bool local_sleep(struct loop *l) REQUIRES(l->receive);
/* Gives memory back that local peers ask for. Called before sleeping, and now and then. */
void local_tidy(struct loop *l);

#endif
