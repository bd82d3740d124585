/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: creation, query and destruction. */
#include "verbs/qp.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cause.h"
#include "base/msan.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "check/qp.h"
#include "device/adapter.h"
#include "device/device.h"
#include "device/front.h"
#include "engine/engine.h"
#include "fault/inject.h"
#include "object/qp.h"
#include "port/faults.h"
#include "port/group.h"
#include "port/ports.h"
#include "port/post.h"
#include "port/raw.h"
#include "verbs/async.h"
#include "verbs/builder.h"
#include "verbs/context.h"
#include "verbs/cq_front.h"
#include "verbs/qp_modify.h"
#include "verbs/remote_qp.h"
#include "verbs/shared_qp.h"
#include "verbs/table.h"
#include "verbs/wq.h"

static bool type_known(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_RAW_PACKET:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
	case IBV_QPT_DRIVER:
		return true;
	}
	return false;
}

/* 0 or EINVAL. */
static int check_cap(const struct ibv_qp_cap *cap)
{
	const struct adapter *a = adapter();
	uint32_t depth = (uint32_t)a->attr.max_qp_wr, sges = min_of((uint32_t)a->attr.max_sge, (uint32_t)HCA_MAX_SGE);
	const struct {
		const char *name;
		uint32_t asked, most;
	} rows[] = {
		{"max_send_wr", cap->max_send_wr, depth},
		{"max_recv_wr", cap->max_recv_wr, depth},
		{"max_send_sge", cap->max_send_sge, sges},
		{"max_recv_sge", cap->max_recv_sge, sges},
		{"max_inline_data", cap->max_inline_data, a->inline_most},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].asked > rows[i].most)
			return because(CAUSE_CREATE_LIMIT, EINVAL, "ibv_create_qp: %s is %u, at most %u are possible",
				       rows[i].name, rows[i].asked, rows[i].most);
	return 0;
}

/* Whether the QP only distributes frames to work queues by a hash. */
static bool is_hash(const struct ibv_qp_init_attr_ex *a)
{
	return a->comp_mask & (IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE);
}

/* Attributes of a queue that the QP does not have are ignored: ibv_create_qp(3), ibv_create_qp_ex(3). */
static void drop_unused(struct ibv_qp_init_attr_ex *a)
{
	bool sends = a->qp_type != IBV_QPT_XRC_RECV;
	bool receives = sends && a->qp_type != IBV_QPT_XRC_SEND;

	if (!sends) {
		a->cap = (struct ibv_qp_cap){0};
		a->pd = NULL;
		a->send_cq = NULL;
	}
	if (is_hash(a)) {
		a->cap = (struct ibv_qp_cap){0};
		a->send_cq = a->recv_cq = NULL;
		a->srq = NULL;
	}
	if (!receives) {
		a->srq = NULL;
		a->recv_cq = NULL;
	}
	if (!receives || a->srq)
		a->cap.max_recv_wr = a->cap.max_recv_sge = 0;
}

static int lacks(const char *what)
{
	return because(CAUSE_CREATE_OBJECT, EINVAL, "ibv_create_qp: the %s is NULL, destroyed or of another device",
		       what);
}

/* Call after drop_unused(). */
static int check_init(struct ibv_context *c, const struct ibv_qp_init_attr_ex *a)
{
	bool sends = a->qp_type != IBV_QPT_XRC_RECV;
	bool receives = sends && a->qp_type != IBV_QPT_XRC_SEND;

	if (!type_known(a->qp_type))
		return EINVAL;
	if (a->qp_type == IBV_QPT_DRIVER || !(adapter()->types & 1u << a->qp_type))
		return EOPNOTSUPP;
	if (!sends && (!(a->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !a->xrcd || a->xrcd->context != c))
		return EINVAL;
	if (sends && (pd_check(a->pd) || a->pd->context != c))
		return lacks("PD");
	if (sends && !is_hash(a) && (cq_check(a->send_cq) || a->send_cq->context != c))
		return lacks("send_cq");
	if (receives && !is_hash(a) && (cq_check(a->recv_cq) || a->recv_cq->context != c))
		return lacks("recv_cq");
	if (a->srq && (srq_check(a->srq) || a->srq->context != c || ((struct srq *)a->srq)->xrcd))
		return lacks("SRQ");
	return check_cap(&a->cap);
}

/* Sets up what only a raw packet QP has. 0 or errno; ibv_destroy_qp() undoes a partial setup. */
static int prepare_raw(struct qp *qp, const struct ibv_qp_init_attr_ex *a)
{
	if (is_hash(a)) {
		int error = rss_create(a, &qp->rss);

		if (error)
			return error;
	}
	return -raw_attach(qp, context_of(qp->base.context)->device->netif_index);
}

/* The XRC domain or the table of work queues that the QP uses; or NULL. */
static const void *domain_or_table(const struct ibv_qp_init_attr_ex *a)
{
	if (a->comp_mask & IBV_QP_INIT_ATTR_XRCD)
		return a->xrcd;
	return is_hash(a) ? a->rwq_ind_tbl : NULL;
}

/* Counts the QP in its device. XRC targets are not counted: they belong to their domain. 0 or errno. */
static int count_qp(struct context *c, enum ibv_qp_type type)
{
	const struct adapter *a = adapter();

	if (type == IBV_QPT_XRC_RECV || adapter_take(&c->device->qps, a->attr.max_qp))
		return 0;
	return because(CAUSE_CREATE_MANY, a->no_more_qps ?: ENOMEM,
		       "ibv_create_qp: the device has %d queue pairs, all it can", a->attr.max_qp);
}

/* Grants all the room that the queue has for inline data, up to the adapter's most. */
static void grant_inline(struct qp *qp)
{
	uint32_t most = min_of((uint32_t)qp->sq.max_inline, adapter()->inline_most);

	qp->cap.max_inline_data = most;
	qp->sq.max_inline = (uint16_t)most;
	qp->sq.fast_inline = (uint16_t)min_of((uint32_t)qp->sq.fast_inline, most);
}

/* `ops`: enum ibv_qp_create_send_ops_flags, 0: a QP without the ibv_wr_ functions. */
static struct ibv_qp *make_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr, uint64_t ops)
{
	struct qp *qp;
	int error;

	drop_unused(attr);
	error = check_init(context, attr) ?: count_qp(context_of(context), attr->qp_type);
	if (error)
		return fail_null(error);
	attr->cap.max_send_wr = depth_granted(attr->cap.max_send_wr);
	attr->cap.max_recv_wr = depth_granted(attr->cap.max_recv_wr);
	qp = loop_make_room(context_of(context)->hca)
		     ? NULL
		     : qp_create(context_of(context)->hca, (struct pd *)attr->pd, (struct cq *)attr->send_cq,
				 (struct cq *)attr->recv_cq, (struct srq *)attr->srq, attr->qp_type, &attr->cap,
				 attr->sq_sig_all);
	if (!qp) {
		if (attr->qp_type != IBV_QPT_XRC_RECV)
			adapter_give(&context_of(context)->device->qps);
		return fail_null(cause_no_more("ibv_create_qp", &context_of(context)->hca->qps, "queue pairs"));
	}
	lock_take(&qp->lock); /* qps_fail() can already find it */
	qp->base.context = context;
	qp->asks_first = adapter()->waits;
	grant_inline(qp);
	lock_drop(&qp->lock);
	qp->base.qp_context = attr->qp_context;
	qp->base.pd = attr->pd;
	qp->base.send_cq = attr->send_cq;
	qp->base.recv_cq = attr->recv_cq;
	qp->base.srq = attr->srq;
	pthread_mutex_init(&qp->base.mutex, NULL);
	pthread_cond_init(&qp->base.cond, NULL);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS)
		qp->loop.no_multicast_loop = attr->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	if (is_xrc_target(qp)) {
		qps_bury(NULL);
		share_qp(qp, (struct xrcd *)attr->xrcd);
	}
	atomic_fetch_add_explicit(&context_of(context)->objects, 1, memory_order_relaxed);
	if (qp->transport == TRANSPORT_RAW)
		error = prepare_raw(qp, attr);
	if (!error && ops && builder_create(qp, ops))
		error = ENOMEM;
	if (error) {
		ibv_destroy_qp(&qp->base);
		return fail_null(error);
	}
	attr->cap = qp->cap;
	check_made(CHECK_QP, &qp->base, 0, attr->pd, attr->send_cq, attr->recv_cq, attr->srq, domain_or_table(attr));
	return &qp->base;
}

PUBLIC struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {0};
	struct ibv_qp *qp;

	if (inject_call(CALL_ibv_create_qp))
		return NULL;
	if (!pd || !attr)
		return fail_null(EINVAL);
	ex.pd = pd;
	ex.comp_mask = IBV_QP_INIT_ATTR_PD;
	ex.qp_context = attr->qp_context;
	ex.send_cq = attr->send_cq;
	ex.recv_cq = attr->recv_cq;
	ex.srq = attr->srq;
	ex.cap = attr->cap;
	ex.qp_type = attr->qp_type;
	ex.sq_sig_all = attr->sq_sig_all;
	qp = make_qp(pd->context, &ex, 0);
	if (!qp)
		return NULL;
	attr->cap = ex.cap;
	msan_wrote(&attr->cap, sizeof(attr->cap));
	return qp;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	uint32_t flags = 0;
	uint64_t ops = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? attr->send_ops_flags : 0;

	if (inject_call(CALL_ibv_create_qp))
		return NULL;
	if (attr->qp_type == IBV_QPT_RAW_PACKET)
		known |= IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE;
	if (attr->qp_type == IBV_QPT_RAW_PACKET || attr->qp_type == IBV_QPT_UD)
		flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	if (attr->comp_mask & ~known || ops & ~builder_ops(attr->qp_type))
		return fail_null(EOPNOTSUPP);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags & ~flags)
		return fail_null(EOPNOTSUPP);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		attr->pd = NULL;
	msan_wrote(&attr->cap, sizeof(attr->cap));
	return make_qp(context, attr, ops);
}

PUBLIC struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return qp && ((struct qp *)qp)->verbs.builder ? &((struct qp *)qp)->ex : NULL;
}

/* `state`: where the application is told its state, which only its own calls write; or NULL. */
static int qp_query(struct qp *qp, struct ibv_qp_attr *attr, enum ibv_qp_state *state) EXCLUDES(qp->lock)
{
	if (qp_is_remote(qp)) {
		int error = remote_query(qp, attr);

		if (!error && state)
			*state = attr->qp_state;
		return error;
	}
	lock_take(&qp->lock);
	engine_query(qp, attr);
	if (state)
		*state = attr->qp_state;
	lock_drop(&qp->lock);
	return 0;
}

PUBLIC int ibv_query_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct qp *qp;
	int error = qp_check(base);

	if (inject_call(CALL_ibv_query_qp))
		return errno;
	if (error || !attr || !init)
		return fail(error ?: EINVAL);
	qp = shared_qp(base);
	error = qp_query(qp, attr, mask & IBV_QP_STATE ? &base->state : NULL);
	if (error)
		return fail(error);
	*init = (struct ibv_qp_init_attr){
		.qp_context = base->qp_context,
		.send_cq = base->send_cq,
		.recv_cq = base->recv_cq,
		.srq = base->srq,
		.cap = qp->cap,
		.qp_type = base->qp_type,
		.sq_sig_all = qp->sig_all,
	};
	msan_wrote(attr, sizeof(*attr));
	msan_wrote(init, sizeof(*init));
	return 0;
}

/* Removes the QP: no packet can reach it, and no event is sent. */
static void dispose(struct qp *qp)
{
	if (hca_is_inert(qp->hca)) {
		qp_destroy(qp);
		return;
	}
	if (qp_is_remote(qp))
		remote_close(qp);
	else if (is_xrc_target(qp) && qp->xrc->domain.device != XRCD_PRIVATE)
		remote_withdraw(qp);
	builder_destroy(qp);
	if (qp->loop.raw)
		raw_detach(qp);
	rss_destroy(qp->rss);
	qp_destroy(qp);
}

void qps_bury(struct context *closing)
{
	struct qp *qp;

	while ((qp = remote_take_dead(closing))) {
		qp_silence(qp, NULL, true);
		dispose(qp);
	}
}

static void destroy(struct ibv_qp *base, bool settles)
{
	struct qp *qp = shared_qp(base);
	struct context *c = context_of(base->context);
	bool counted = !is_xrc_target(qp), last = counted || unshare_qp((struct qp *)base);

	if (hooks_any() && counted)
		check_ends_qp(base, qp_state_now(qp), "destroyed");
	check_gone(CHECK_QP, base);
	if (last)
		qp_silence(qp, c, settles);
	async_forget_qp(c, (struct qp *)base);
	pthread_cond_destroy(&base->cond);
	pthread_mutex_destroy(&base->mutex);
	if ((struct qp *)base != qp)
		free(base);
	if (last)
		dispose(qp);
	if (counted)
		adapter_give(&c->device->qps);
	atomic_fetch_sub_explicit(&c->objects, 1, memory_order_release);
}

PUBLIC int ibv_destroy_qp(struct ibv_qp *base)
{
	int error = qp_check(base);
	struct qp *qp;

	if (error && hooks_any())
		check_dead(CHECK_QP, base, "destroyed again");
	if (error)
		return fail(error);
	qp = shared_qp(base);
	if (atomic_load_explicit(&qp->verbs.groups, memory_order_relaxed)) { /* ibv_destroy_qp(3) */
		check_busy_as(CHECK_QP, base, "it is attached to a multicast group");
		return fail(EBUSY);
	}
	if (atomic_load_explicit(&qp->verbs.flows, memory_order_acquire)) {
		check_busy(CHECK_QP, base);
		return fail(EBUSY);
	}
	destroy(base, true);
	return 0;
}

void destroy_qp_unsettled(struct ibv_qp *qp)
{
	destroy(qp, false);
}

static void each_qp(struct context *c, void (*use)(struct qp *qp, struct context *c))
{
	for (uint32_t i = 0; i < HCA_MAX_QP; i++) {
		struct qp *qp = pool_at_random(&c->hca->qps, i);
		bool ours;

		if (!qp)
			continue;
		lock_take(&qp->lock);
		ours = qp->alive && qp->base.context == &c->verbs.context;
		lock_drop(&qp->lock);
		if (ours)
			use(qp, c);
	}
}

static void qp_abandon(struct qp *qp, struct context *c)
{
	qp_silence(qp, c, true);
	if (qp->verbs.groups)
		loop_leave_all(qp->base.qp_num);
}

void qps_abandon(struct context *c)
{
	each_qp(c, qp_abandon);
}

/* Checks again under the lock: another QP may have the same slot of the pool by now. */
static void fail_qp(struct qp *qp, struct context *c)
{
	lock_take(&qp->lock);
	if (qp->alive && qp->base.context == &c->verbs.context && qp->state != IBV_QPS_RESET) {
		engine_fail(qp);
		loop_run(qp);
	}
	lock_drop(&qp->lock);
}

void qps_fail(struct context *c)
{
	each_qp(c, fail_qp);
}

PUBLIC int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0; /* not guaranteed: a retransmission may write the start of a message again after its end is visible */
}

/* Enhanced connection establishment: vendor-specific options; there are none here. */
PUBLIC int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (ece->comp_mask)
		return fail(EOPNOTSUPP);
	return 0;
}

PUBLIC int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	*ece = (struct ibv_ece){0};
	msan_wrote(ece, sizeof(*ece));
	return 0;
}

void table_add_qp(struct verbs_context *v)
{
	v->create_qp_ex = create_qp_ex;
}
