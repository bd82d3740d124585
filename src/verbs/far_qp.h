/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC target QPs that processes of a domain open in each other (ibv_open_qp(3)). The QP is in the process that has made
 * it, its home, and lives for as long as anybody has it open there or elsewhere. For each
 * process that has opened it there is a connection, which ends when it closes the QP or dies: at home it stands for one
 * who has the QP open, away for the QP, of which there is a `struct qp` that only holds those who have opened it here.
 * Events come by it. What is asked of the QP goes by a connection of its own, and is answered by the helper thread of
 * its home. When the home closes its device or dies, the first who hears the end of his connection is the new home
 * (loop/heir.h): his `struct qp` becomes the QP; the others connect to him. */
#ifndef UROCE_FAR_QP_H
#define UROCE_FAR_QP_H

#include "object/qp.h"
#include "object/xrcd.h"

struct context;

/* ---- at home ---- */

/* A new target of a domain that others may have may be opened there from now on; if not, it works as well. And it is
 * gone: after that nobody calls. */
void far_offer(struct qp *qp) EXCLUDES(qp->lock);
void far_withdraw(struct qp *qp) EXCLUDES(qp->lock);
/* Tells somebody far away, who is among the openers of a QP. */
void far_tell(const struct far *opener, enum ibv_event_type type);
/* QPs that nobody has open any more, since the last who had were far away, are destroyed now; of a context that is
 * about to be closed, also those that somebody there has. */
void far_bury(struct context *closing);

/* ---- away ---- */

/* The QP of that number and domain as it is seen from here, locked, to be opened; NULL and errno: EINVAL (there is
 * none), ENOMEM or ETIMEDOUT. May block until its home answers, as all that follows: for 5 s at most. */
struct qp *far_find(struct hca *hca, uint8_t home, uint32_t qpn, const struct xrcd_name *domain);
/* Whether it is still, or again, in another process. */
bool far_is_away(struct qp *qp) EXCLUDES(qp->lock);
/* Nobody has it open here any more: before its path is taken away, and before qp_destroy(). */
void far_settle(struct qp *qp) EXCLUDES(qp->lock);
void far_close(struct qp *qp) EXCLUDES(qp->lock);
/* 0 or errno; ENODEV: it is no more. ETIMEDOUT: its home is stopped. -1: it has come here, so ask it. */
int far_query(struct qp *qp, struct ibv_qp_attr *attr);
int far_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);

#endif
