/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC target QPs that are opened by other processes (ibv_open_qp(3), docs/xrc.md). The QP is in the process that
 * created it, its owner. It exists as long as any process has it open, but no longer than its owner. Each other process
 * that has it open has one connection to the owner, which ends when that process closes the QP or dies. In the owner,
 * the connection is one opener of the QP. In the other process, it belongs to a remote QP: a `struct qp` of the
 * pool, for its lock and its place in other tables, that only lists its openers in that process. Events are sent over
 * this connection. A query or a modify uses a new connection, and the helper thread of the owner answers it. When the
 * owner closes its device or dies, the other processes get IBV_EVENT_QP_FATAL, and query and modify fail with ENODEV.
 */
#ifndef UROCE_REMOTE_QP_H
#define UROCE_REMOTE_QP_H

#include "object/qp.h"
#include "object/xrcd.h"

struct context;

extern struct lock remote_lock;

/* In a child of fork(): closes all connections. */
void remote_forget(void) REQUIRES(remote_lock);

/* ---- calls in the owner ---- */

/* remote_offer(): other processes may open this new target QP, if its domain can be shared; on failure the QP works
 * without that. remote_withdraw(): before the QP is destroyed; no calls come for it afterwards. */
void remote_offer(struct qp *qp) EXCLUDES(qp->lock);
void remote_withdraw(struct qp *qp) EXCLUDES(qp->lock);
/* Takes a QP whose last opener was remote and has closed it: the caller destroys it. NULL: there is none. If `closing`
 * is given, QPs of this context that only remote processes have open are closed first. */
struct qp *remote_take_dead(struct context *closing);

/* ---- calls in other processes ---- */

/* Finds the QP with this number in this domain. Returns the remote QP, locked, to be opened; or NULL and errno: EINVAL
 * (no such QP), ENOMEM or ETIMEDOUT. This call and all below may block until the owner answers, at most 5 s. */
struct qp *remote_find(struct hca *hca, uint32_t qpn, const struct xrcd_name *domain) NO_LOCK_ANALYSIS;
/* This process has closed the QP. Call before qp_destroy(). */
void remote_close(struct qp *qp) EXCLUDES(qp->lock);
/* 0 or errno. ENODEV: the QP does not exist any more. ETIMEDOUT: the owner process is stopped. */
int remote_query(struct qp *qp, struct ibv_qp_attr *attr);
int remote_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);

#endif
