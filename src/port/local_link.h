/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair and the rings of its local peer: changing the link, sending, waiting for room. */
#ifndef UROCE_PORT_LOCAL_LINK_H
#define UROCE_PORT_LOCAL_LINK_H

#include "base/lock.h"
#include "loop/loop.h"

/* True if the QP's peer is in a local peer that has been met, but is known to have other addresses or to be connected
 * to another QP. By UDP, its packets would be dropped. */
bool local_is_astray(const struct qp *qp) REQUIRES(qp->lock);

/* Changes the link of the QP if it is due. */
void local_meet(struct qp *qp) REQUIRES(qp->lock);

/* Returns the local peer through whose ring packets of this QP go, locked until local_leave(); NULL: packets go by udp.
 * Changes the link of the QP if it is due. */
struct local_peer *local_enter(struct qp *qp) REQUIRES(qp->lock);
/* Bytes that a tx batch may put into the ring. local_leave(): drops the lock and wakes the local peer; `full`: the QP
 * waits for room. */
uint32_t local_room(struct local_peer *peer);
void local_leave(struct qp *qp, struct local_peer *peer, bool full) REQUIRES(qp->lock);

/* Runs the QP when the ring has room. With peer->lock, as the next. */
void local_wait(struct qp *qp, struct local_peer *peer) REQUIRES(qp->lock);
/* Ends such a wait: the QP is being run. */
void local_wait_no_more(struct qp *qp) REQUIRES(qp->lock);

/* True if the local peer has not read yet what this QP sent last. */
bool local_is_unseen(const struct qp *qp) REQUIRES(qp->lock);

/* Makes QPs ready that waited for room in a ring which has room again. */
void local_unstick(struct loop *l) REQUIRES(l->receive);
/* Prepares a thread's sleep on `doorbell`. True: something has come, so the thread must not sleep. */
bool local_sleep(struct loop *l) REQUIRES(l->receive);
/* Gives back memory that local peers ask for. Called before sleeping, and now and then. */
void local_tidy(struct loop *l);

#endif
