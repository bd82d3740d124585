/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC target QPs belong to their domain: whoever has opened it may open them as well, and they live as long as somebody
 * has them open (ibv_open_qp(3)); from another process: remote_qp.h. A context's own view of such a QP is a struct qp,
 * too, as all that verbs/ is given are struct ibv_qp; the one that the maker holds is the QP itself. Events go to all.
 * qp->lock guards the list. */
#ifndef UROCE_SHARED_QP_H
#define UROCE_SHARED_QP_H

#include "object/qp.h"
#include "object/xrcd.h"

/* The QP itself. */
static inline struct qp *shared_qp(struct ibv_qp *base)
{
	struct qp *qp = (struct qp *)base;

	return unlikely(qp->xrc) && qp->xrc->real ? qp->xrc->real : qp;
}

/* It is in another process: remote_qp.h. */
static inline bool qp_is_remote(const struct qp *qp)
{
	return unlikely(qp->xrc) && qp->xrc->remote;
}

/* As pd_check(). */
static inline int qp_check(struct ibv_qp *base)
{
	return !base ? EINVAL : base->handle != shared_qp(base)->index ? ENOENT : 0;
}

/* A new target QP may be opened from now on. */
void share_qp(struct qp *qp, struct xrcd *xrcd) EXCLUDES(qp->lock);
/* One who has it open closes it: no event will be told there. True: it was the last. */
bool unshare_qp(struct qp *opened);

/* qp.c, for those whose QP is somewhere else (remote_qp.h). What ibv_query_qp() tells: */
void qp_attributes(const struct qp *qp, struct ibv_qp_attr *attr) REQUIRES(qp->lock);
/* ... and the end of a QP that nobody has open any more, nor will open. */
void bury_qp(struct qp *qp) EXCLUDES(qp->lock);

#endif
