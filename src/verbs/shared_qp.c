/* SPDX-License-Identifier: BSD-2-Clause */
/* Openers of XRC target QPs: see shared_qp.h. */
#include "verbs/shared_qp.h"

#include <stdlib.h>

#include "device/front.h"
#include "verbs/async.h"
#include "verbs/context.h"
#include "verbs/remote_qp.h"
#include "verbs/table.h"

/* The handle of one opener of a QP. */
struct view {
	struct qp qp; /* must be first: free() gets this pointer */
	struct xrc xrc;
	struct xrc_opener opener;
};

static void view_tell(struct xrc_opener *o, enum ibv_event_type type)
{
	async_tell_qp(&container_of(o, struct view, opener)->qp.base, type);
}

static void xrcd_count_user(struct xrcd *xrcd, uint32_t by)
{
	/* release: pairs with close_xrcd() */
	atomic_fetch_add_explicit(&xrcd->users, by, memory_order_release);
}

void share_qp(struct qp *qp, struct xrcd *xrcd)
{
	xrcd_count_user(xrcd, 1);
	lock_take(&qp->lock);
	qp->xrc->xrcd = xrcd;
	qp->xrc->domain = xrcd->name;
	qp->xrc->open = 1;
	lock_drop(&qp->lock);
	if (xrcd->name.device != XRCD_PRIVATE)
		remote_offer(qp);
}

bool unshare_qp(struct qp *opened)
{
	struct qp *qp = shared_qp(&opened->base);
	struct xrcd *xrcd = opened->xrc->xrcd;
	bool last;

	lock_take(&qp->lock);
	if (opened == qp) {
		qp->xrc->is_closed = true;
	} else {
		list_remove(&((struct view *)opened)->opener.link);
	}
	last = --qp->xrc->open == 0;
	lock_drop(&qp->lock);
	xrcd_count_user(xrcd, -1u);
	return last;
}

static struct qp *make_opened(struct qp *qp, struct ibv_context *context, const struct ibv_qp_open_attr *attr)
	REQUIRES(qp->lock)
{
	struct view *v = calloc(1, sizeof(*v));
	struct qp *opened = &v->qp;

	if (!v)
		return NULL;
	opened->xrc = &v->xrc;
	v->opener.tell = view_tell;
	v->xrc.real = qp;
	v->xrc.xrcd = (struct xrcd *)attr->xrcd;
	opened->hca = qp->hca;
	opened->base.context = context;
	opened->base.qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL;
	opened->base.handle = qp->base.handle;
	opened->base.qp_num = qp->base.qp_num;
	opened->base.qp_type = qp->base.qp_type;
	opened->base.state = qp_is_remote(qp) ? qp->base.state : qp->state;
	pthread_mutex_init(&opened->base.mutex, NULL);
	pthread_cond_init(&opened->base.cond, NULL);
	list_append(&qp->xrc->openers, &v->opener.link);
	qp->xrc->open++;
	xrcd_count_user(v->xrc.xrcd, 1);
	atomic_fetch_add_explicit(&context_of(context)->objects, 1, memory_order_relaxed);
	return opened;
}

/* Finds a QP of this process or of another; returns it locked. NULL and errno on failure. */
static struct qp *shared_qp_find(const struct xrcd *xrcd, uint32_t qpn)
{
	struct qp *qp = hca_find_qp(xrcd->hca, qpn);

	if (!qp && xrcd->name.device != XRCD_PRIVATE)
		return remote_find(xrcd->hca, qpn, &xrcd->name);
	if (!qp)
		return fail_null(EINVAL);
	lock_take_over(&qp->lock);
	if (!is_xrc_target(qp) || !qp->xrc->open || !xrcd_same(&qp->xrc->domain, &xrcd->name)) {
		lock_drop(&qp->lock);
		return fail_null(EINVAL);
	}
	lock_hand_over(&qp->lock);
	return qp;
}

static struct qp *open_target(struct ibv_context *context, const struct ibv_qp_open_attr *attr)
{
	struct qp *qp = shared_qp_find((struct xrcd *)attr->xrcd, attr->qp_num), *opened;
	bool unused;

	if (!qp)
		return NULL;
	lock_take_over(&qp->lock);
	opened = make_opened(qp, context, attr);
	unused = !qp->xrc->open;
	lock_drop(&qp->lock);
	if (unused) { /* the QP of another process, which remote_find() has just made */
		remote_close(qp);
		qp_destroy(qp);
	}
	return opened ?: fail_null(ENOMEM);
}

static struct ibv_qp *open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct xrcd *xrcd = (struct xrcd *)attr->xrcd;
	struct qp *opened;

	if ((attr->comp_mask & needed) != needed || attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED || !xrcd ||
	    xrcd->base.context != context || attr->qp_type != IBV_QPT_XRC_RECV)
		return fail_null(EINVAL);
	opened = open_target(context, attr);
	return opened ? &opened->base : NULL;
}

void table_add_shared_qp(struct verbs_context *v)
{
	v->open_qp = open_qp;
}
