/* SPDX-License-Identifier: BSD-2-Clause */
/* Openers of XRC target QPs. A target QP belongs to its XRC domain: each process that has the domain open may open the
 * QP, and the QP exists as long as it is open anywhere (ibv_open_qp(3)). For openers in other processes see
 * remote_qp.h. Each further opener gets a view; the creator holds the QP itself. A view is a `struct qp` too, of
 * which little is used: what the program posts to it finds a QP in RESET, so that no post has to ask what it is for.
 * Events go to all openers. qp->lock guards the list. */
#ifndef UROCE_SHARED_QP_H
#define UROCE_SHARED_QP_H

#include "object/qp.h"
#include "object/xrcd.h"

/* The QP that a view refers to; of the QP itself, the QP. */
static inline struct qp *shared_qp(struct ibv_qp *base)
{
	struct qp *qp = (struct qp *)base;

	return unlikely(qp->xrc) && qp->xrc->real ? qp->xrc->real : qp;
}

/* True if the QP is in another process: remote_qp.h. */
static inline bool qp_is_remote(const struct qp *qp)
{
	return unlikely(qp->xrc) && qp->xrc->remote;
}

/* 0, EINVAL or ENOENT, as pd_check(). */
static inline int qp_check(struct ibv_qp *base)
{
	return !base ? EINVAL : base->handle != shared_qp(base)->index ? ENOENT : 0;
}

/* From now on the new target QP may be opened. */
void share_qp(struct qp *qp, struct xrcd *xrcd) EXCLUDES(qp->lock);
/* One opener closes the QP and gets no events any more. True if it was the last opener. */
bool unshare_qp(struct qp *opened);

#endif
