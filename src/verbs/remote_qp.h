/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC target QPs that processes of a domain open in each other (ibv_open_qp(3), docs/xrc.md). The QP is in the process
 * that has made it, its owner, and lives for as long as any process has it open, but no longer than its owner. For each
 * other process that has opened it there is a connection, which ends when that closes the QP or dies. In the owner the
 * connection stands for an opener of the QP. In the other process it stands for the remote QP: there is a `struct qp`
 * that only holds those who have opened it here. Events come by the connection. A query or modify goes by a connection
 * of its own, and the helper thread of the owner answers it. When the owner closes its device or dies, the others hear
 * IBV_EVENT_QP_FATAL, and query and modify fail (ENODEV). */
#ifndef UROCE_REMOTE_QP_H
#define UROCE_REMOTE_QP_H

#include "object/qp.h"
#include "object/xrcd.h"

struct context;

/* ---- of the owner ---- */

/* A new target of a domain that others may have may be opened there from now on; if not, it works as well. And it is
 * gone: after that nobody calls. */
void remote_offer(struct qp *qp) EXCLUDES(qp->lock);
void remote_withdraw(struct qp *qp) EXCLUDES(qp->lock);
/* Tells a remote process that is among the openers of a QP. */
void remote_tell(const struct remote *opener, enum ibv_event_type type);
/* QPs that nobody has open any more, since the last who had were remote, are destroyed now; of a context that is about
 * to be closed, also those that somebody there has. */
void remote_bury(struct context *closing);

/* ---- of the others ---- */

/* The QP of that number and domain as it is seen from here, locked, to be opened; NULL and errno: EINVAL (there is
 * none), ENOMEM or ETIMEDOUT. May block until its owner answers, as all that follows: for 5 s at most. */
struct qp *remote_find(struct hca *hca, uint32_t qpn, const struct xrcd_name *domain) NO_LOCK_ANALYSIS;
/* Nobody has it open here any more: before qp_destroy(). */
void remote_close(struct qp *qp) EXCLUDES(qp->lock);
/* 0 or errno; ENODEV: it is no more. ETIMEDOUT: its owner is stopped. */
int remote_query(struct qp *qp, struct ibv_qp_attr *attr);
int remote_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);

#endif
