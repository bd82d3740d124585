/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/shared_qp.h"

#include <stdlib.h>

#include "loop/heir.h"
#include "verbs/context.h"
#include "verbs/far_qp.h"
#include "verbs/listen.h"

static void count_user(struct xrcd *xrcd, uint32_t by)
{
	/* release: pairs with close_xrcd() */
	atomic_fetch_add_explicit(&xrcd->users, by, memory_order_release);
}

void share_qp(struct qp *qp, struct xrcd *xrcd)
{
	count_user(xrcd, 1);
	lock_take(&qp->lock);
	qp->xrcd = xrcd;
	qp->domain = xrcd->name;
	qp->open = 1;
	lock_drop(&qp->lock);
	far_bury(NULL);
	if (xrcd->name.device != XRCD_PRIVATE)
		far_offer(qp);
}

bool unshare_qp(struct qp *opened)
{
	struct qp *qp = shared_qp(&opened->base);
	struct xrcd *xrcd = opened->xrcd;
	bool last;

	lock_take(&qp->lock);
	if (opened == qp) {
		qp->closed = true;
	} else {
		list_remove(&opened->openers);
	}
	last = --qp->open == 0;
	if (last)
		heir_release(qp);
	lock_drop(&qp->lock);
	count_user(xrcd, -1u);
	return last;
}

static struct qp *make_opened(struct qp *qp, struct ibv_context *context, const struct ibv_qp_open_attr *attr)
	REQUIRES(qp->lock)
{
	struct qp *opened = calloc(1, sizeof(*opened));

	if (!opened)
		return NULL;
	opened->real = qp;
	opened->hca = qp->hca;
	opened->xrcd = (struct xrcd *)attr->xrcd;
	opened->base.context = context;
	opened->base.qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL;
	opened->base.handle = qp->base.handle;
	opened->base.qp_num = qp->base.qp_num;
	opened->base.qp_type = qp->base.qp_type;
	opened->base.state = qp->far && !qp->is_here ? qp->base.state : qp->state;
	pthread_mutex_init(&opened->base.mutex, NULL);
	pthread_cond_init(&opened->base.cond, NULL);
	list_append(&qp->openers, &opened->openers);
	qp->open++;
	count_user(opened->xrcd, 1);
	atomic_fetch_add_explicit(&context_of(context)->objects, 1, memory_order_relaxed);
	return opened;
}

/* Of this process or another, locked; NULL and errno. */
static struct qp *shared_qp_find(const struct xrcd *xrcd, uint32_t qpn)
{
	struct qp *qp = hca_find_qp(xrcd->hca, qpn);

	if (!qp && xrcd->name.device != XRCD_PRIVATE)
		return far_find(xrcd->hca, heir_of(xrcd->hca, qpn), qpn, &xrcd->name);
	if (!qp)
		return fail_null(EINVAL);
	lock_take_over(&qp->lock);
	if (!is_xrc_target(qp) || !qp->open || !xrcd_same(&qp->domain, &xrcd->name)) {
		lock_drop(&qp->lock);
		return fail_null(EINVAL);
	}
	lock_hand_over(&qp->lock);
	return qp;
}

static struct qp *open_there(struct ibv_context *context, const struct ibv_qp_open_attr *attr, bool listens)
{
	struct qp *qp = shared_qp_find((struct xrcd *)attr->xrcd, attr->qp_num), *opened;
	bool unused;

	if (!qp)
		return NULL;
	lock_take_over(&qp->lock);
	opened = make_opened(qp, context, attr);
	if (opened)
		opened->listens = listens;
	unused = !qp->open;
	lock_drop(&qp->lock);
	if (unused)
		bury_qp(qp, true);
	return opened ?: fail_null(ENOMEM);
}

struct ibv_qp *open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct xrcd *xrcd = (struct xrcd *)attr->xrcd;
	struct context *c = context_of(context);
	struct qp *opened;
	bool listens;
	int error;

	if ((attr->comp_mask & needed) != needed || attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED || !xrcd ||
	    xrcd->base.context != context || attr->qp_type != IBV_QPT_XRC_RECV)
		return fail_null(EINVAL);
	/* so that it can go on here; if not, it can be opened all the same */
	listens = xrcd->name.device != XRCD_PRIVATE && attr->qp_num >> 16 != c->hca->slot && !listen_everywhere(c);
	opened = open_there(context, attr, listens);
	error = errno;
	if (!opened && listens)
		listen_leave(c);
	return opened ? &opened->base : fail_null(error);
}
