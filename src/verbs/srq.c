/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues. */
#include "base/cause.h"
#include "base/msan.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "device/adapter.h"
#include "device/front.h"
#include "device/listen.h"
#include "fault/inject.h"
#include "object/srq.h"
#include "port/ports.h"
#include "verbs/async.h"
#include "verbs/context.h"
#include "verbs/table.h"

/* `xrcd` and `cq`: XRC only, else NULL. */
static struct ibv_srq *make_srq(struct ibv_pd *base, struct ibv_xrcd *xrcd, struct ibv_cq *cq, void *srq_context,
				struct ibv_srq_attr *attr)
{
	const struct ibv_device_attr *limits = &adapter()->attr;
	struct pd *pd = (struct pd *)base;
	int error = pd_check(base);
	struct srq *srq;

	if (!error && !limits->max_srq)
		error = EOPNOTSUPP;
	if (error || attr->max_wr > (uint32_t)limits->max_srq_wr || attr->max_sge > (uint32_t)limits->max_srq_sge)
		return fail_null(error ?: EINVAL);
	attr->max_wr = depth_granted(max_of(attr->max_wr, 1u));
	attr->max_sge = max_of(attr->max_sge, 1u);
	srq = loop_make_room(pd->hca)
		      ? NULL
		      : srq_create(pd->hca, pd, (struct xrcd *)xrcd, (struct cq *)cq, attr->max_wr, attr->max_sge);
	if (!srq)
		return fail_null(cause_no_more("ibv_create_srq", &pd->hca->srqs, "SRQs"));
	lock_take(&srq->rq.lock); /* `uroce stat` can already find it */
	srq->base.context = base->context;
	lock_drop(&srq->rq.lock);
	srq->base.srq_context = srq_context;
	srq->base.pd = base;
	pthread_mutex_init(&srq->base.mutex, NULL);
	pthread_cond_init(&srq->base.cond, NULL);
	atomic_fetch_add_explicit(&context_of(base->context)->objects, 1, memory_order_relaxed);
	check_made(CHECK_SRQ, srq, 0, base, cq, xrcd);
	return &srq->base;
}

PUBLIC struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	if (inject_call(CALL_ibv_create_srq))
		return NULL;
	return attr ? make_srq(pd, NULL, NULL, attr->srq_context, &attr->attr) : fail_null(EINVAL);
}

/* True if targets of other processes deliver to this SRQ: this process then sends the ACKs, from any of its addresses.
 */
static bool is_shared(const struct ibv_xrcd *xrcd)
{
	return ((const struct xrcd *)xrcd)->name.device != XRCD_PRIVATE;
}

static struct ibv_srq *create_xrc(struct context *c, struct ibv_srq_init_attr_ex *a)
{
	int error = is_shared(a->xrcd) ? listen_everywhere(&c->listen) : 0;
	struct ibv_srq *srq;

	if (error)
		return fail_null(-error);
	srq = make_srq(a->pd, a->xrcd, a->cq, a->srq_context, &a->attr);
	if (!srq && is_shared(a->xrcd))
		listen_leave(&c->listen);
	return srq;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *a)
{
	const uint32_t xrc = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	enum ibv_srq_type type = a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? a->srq_type : IBV_SRQT_BASIC;

	if (inject_call(CALL_ibv_create_srq))
		return NULL;
	if (a->comp_mask >= IBV_SRQ_INIT_ATTR_TM)
		return fail_null(EOPNOTSUPP);
	if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !a->pd || a->pd->context != context)
		return fail_null(EINVAL);
	if (type == IBV_SRQT_BASIC)
		return make_srq(a->pd, NULL, NULL, a->srq_context, &a->attr);
	if (type != IBV_SRQT_XRC)
		return fail_null(EOPNOTSUPP);
	if ((a->comp_mask & xrc) != xrc || !a->xrcd || a->xrcd->context != context || !a->cq ||
	    a->cq->context != context)
		return fail_null(EINVAL);
	return create_xrc(context_of(context), a);
}

/* Returns a number for any SRQ; peers can use only those of XRC SRQs. */
static int get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	if (!srq || !number)
		return fail(EINVAL);
	*number = ((struct srq *)srq)->number;
	msan_wrote(number, sizeof(*number));
	return 0;
}

PUBLIC int ibv_modify_srq(struct ibv_srq *base, struct ibv_srq_attr *attr, int mask)
{
	int error = srq_check(base);

	if (inject_call(CALL_ibv_modify_srq))
		return errno;
	if (error || !attr || (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)))
		return fail(error ?: EINVAL);
	if ((mask & IBV_SRQ_MAX_WR) && (!attr->max_wr || attr->max_wr > (uint32_t)adapter()->attr.max_srq_wr))
		return fail(EINVAL);
	error = srq_modify((struct srq *)base, mask & IBV_SRQ_MAX_WR ? depth_granted(attr->max_wr) : 0, attr->srq_limit,
			   mask);
	return error ? fail(-error) : 0;
}

PUBLIC int ibv_query_srq(struct ibv_srq *base, struct ibv_srq_attr *attr)
{
	struct srq *srq = (struct srq *)base;
	int error = srq_check(base);

	if (error || !attr)
		return fail(error ?: EINVAL);
	lock_take(&srq->rq.lock);
	*attr = (struct ibv_srq_attr){srq->rq.depth, srq->rq.max_sge, srq->limit};
	msan_wrote(attr, sizeof(*attr));
	lock_drop(&srq->rq.lock);
	return 0;
}

PUBLIC int ibv_destroy_srq(struct ibv_srq *base)
{
	struct srq *srq = (struct srq *)base;
	int error = srq_check(base);
	struct context *c;

	if (error)
		return fail(error);
	if (atomic_load_explicit(&srq->users, memory_order_acquire)) {
		check_busy(CHECK_SRQ, srq);
		return fail(EBUSY);
	}
	check_gone(CHECK_SRQ, srq);
	c = context_of(base->context);
	async_forget_srq(c, srq);
	if (srq->xrcd && is_shared(&srq->xrcd->base))
		listen_leave(&c->listen);
	pthread_cond_destroy(&base->cond);
	pthread_mutex_destroy(&base->mutex);
	srq_destroy(srq);
	atomic_fetch_sub_explicit(&c->objects, 1, memory_order_release);
	return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return srq_post((struct srq *)srq, wr, bad);
}

void table_add_srq(struct verbs_context *v)
{
	v->create_srq_ex = create_srq_ex;
	v->get_srq_num = get_srq_num;
	v->context.ops.post_srq_recv = post_srq_recv;
}
