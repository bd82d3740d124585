/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive-side scaling of raw packet QPs: work queues, tables of work queues, and QPs that choose a queue by hash. A
 * work queue contains a raw packet QP that only receives. */
#include "verbs/wq.h"

#include <stdlib.h>
#include <string.h>

#include "base/msan.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "device/adapter.h"
#include "device/front.h"
#include "engine/engine.h"
#include "object/rss.h"
#include "port/ports.h"
#include "verbs/context.h"
#include "verbs/cq_front.h"
#include "verbs/post.h"
#include "verbs/table.h"

struct wq {
	struct ibv_wq base; /* the application's handle; must be first */
	struct qp *qp;
	_Atomic uint32_t users; /* number of tables that use it */
};

struct wq_table {
	struct ibv_rwq_ind_table base; /* the application's handle; must be first */
	_Atomic uint32_t users;	       /* number of QPs that use it */
	uint32_t count;
	struct wq **wq;	    /* stored behind queue[] */
	struct qp *queue[]; /* the QPs of wq[] */
};

static _Atomic uint32_t wq_count, table_count;

static int wq_post(struct ibv_wq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return post_recv(&((struct wq *)base)->qp->base, wr, bad);
}

static int check_wq(struct ibv_context *context, const struct ibv_wq_init_attr *a)
{
	if (!a || a->wq_type != IBV_WQT_RQ || pd_check(a->pd) || a->pd->context != context || cq_check(a->cq) ||
	    a->cq->context != context || a->max_wr > (uint32_t)adapter()->attr.max_qp_wr ||
	    a->max_sge > (uint32_t)min_of(adapter()->attr.max_sge, (int)HCA_MAX_SGE))
		return EINVAL;
	if ((a->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS) ||
	    (a->comp_mask & IBV_WQ_INIT_ATTR_FLAGS && a->create_flags))
		return EOPNOTSUPP;
	return 0;
}

static struct ibv_wq *create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	int error = check_wq(context, attr);
	struct ibv_qp_cap cap = {0};
	struct wq *wq;

	if (!error && !adapter_take(&wq_count, HCA_MAX_WQ))
		error = ENOMEM;
	if (error)
		return fail_null(error);
	cap.max_recv_wr = attr->max_wr = depth_granted(attr->max_wr);
	msan_wrote(&attr->max_wr, sizeof(attr->max_wr));
	cap.max_recv_sge = attr->max_sge;
	wq = calloc(1, sizeof(*wq));
	if (wq && !loop_make_room(context_of(context)->hca))
		wq->qp = qp_create(context_of(context)->hca, (struct pd *)attr->pd, NULL, (struct cq *)attr->cq, NULL,
				   IBV_QPT_RAW_PACKET, &cap, false);
	if (!wq || !wq->qp) {
		adapter_give(&wq_count);
		free(wq);
		return fail_null(ENOMEM);
	}
	lock_take(&wq->qp->lock); /* qps_fail() and `uroce stat` can already find it */
	wq->qp->base.context = context;
	wq->qp->verbs.wq = &wq->base;
	lock_drop(&wq->qp->lock);
	wq->base.context = context;
	wq->base.pd = attr->pd;
	wq->base.cq = attr->cq;
	wq->base.wq_num = wq->qp->base.qp_num;
	wq->base.handle = wq->qp->base.handle;
	wq->base.state = IBV_WQS_RESET;
	wq->base.wq_type = attr->wq_type;
	wq->base.post_recv = wq_post;
	atomic_fetch_add_explicit(&context_of(context)->objects, 1, memory_order_relaxed);
	check_made(CHECK_WQ, wq, 0, context, attr->pd, attr->cq);
	return &wq->base;
}

static enum ibv_wq_state wq_state_of(const struct qp *qp)
{
	return qp->state == IBV_QPS_RESET ? IBV_WQS_RESET : qp->state == IBV_QPS_ERR ? IBV_WQS_ERR : IBV_WQS_RDY;
}

static int change_state(struct qp *qp, enum ibv_wq_state from, enum ibv_wq_state to) REQUIRES(qp->lock)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = PORT};

	if (to == IBV_WQS_RDY && from == IBV_WQS_RDY)
		return 0;
	if (to == IBV_WQS_RDY) {
		if (from != IBV_WQS_RESET || engine_modify(qp, &a, IBV_QP_STATE | IBV_QP_PORT, 0))
			return EINVAL;
		a.qp_state = IBV_QPS_RTR;
		return -engine_modify(qp, &a, IBV_QP_STATE, 0);
	}
	if (to == IBV_WQS_ERR && from == IBV_WQS_RESET)
		return EINVAL;
	a.qp_state = to == IBV_WQS_ERR ? IBV_QPS_ERR : IBV_QPS_RESET;
	return -engine_modify(qp, &a, IBV_QP_STATE, 0);
}

static int modify_wq(struct ibv_wq *base, struct ibv_wq_attr *attr)
{
	struct qp *qp = ((struct wq *)base)->qp;
	enum ibv_wq_state from;
	int error = 0;

	if (attr->attr_mask & ~(uint32_t)(IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE))
		return fail(EOPNOTSUPP);
	if ((attr->attr_mask & IBV_WQ_ATTR_STATE) && attr->wq_state > IBV_WQS_ERR)
		return fail(EINVAL);
	lock_take(&qp->lock);
	from = wq_state_of(qp);
	if ((attr->attr_mask & IBV_WQ_ATTR_CURR_STATE) && attr->curr_wq_state != from)
		error = EINVAL;
	else if (attr->attr_mask & IBV_WQ_ATTR_STATE)
		error = change_state(qp, from, attr->wq_state);
	base->state = wq_state_of(qp);
	lock_drop(&qp->lock);
	return error ? fail(error) : 0;
}

static int destroy_wq(struct ibv_wq *base)
{
	struct wq *wq = (struct wq *)base;

	if (atomic_load_explicit(&wq->users, memory_order_acquire)) {
		check_busy(CHECK_WQ, wq);
		return fail(EBUSY);
	}
	check_gone(CHECK_WQ, wq);
	atomic_fetch_sub_explicit(&context_of(base->context)->objects, 1, memory_order_release);
	adapter_give(&wq_count);
	qp_destroy(wq->qp);
	pthread_cond_destroy(&base->cond);
	pthread_mutex_destroy(&base->mutex);
	free(wq);
	return 0;
}

static bool all_ours(struct ibv_context *context, struct ibv_wq *const *wq, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!wq[i] || wq[i]->context != context)
			return false;
	return true;
}

static struct ibv_rwq_ind_table *create_rwq_ind_table(struct ibv_context *context,
						      struct ibv_rwq_ind_table_init_attr *attr)
{
	static _Atomic int handles;
	struct wq_table *t = NULL;
	uint32_t count;

	if (!attr || attr->comp_mask || attr->log_ind_tbl_size >= 32)
		return fail_null(EINVAL);
	count = 1u << attr->log_ind_tbl_size;
	if (count > RSS_TABLE || !attr->ind_tbl || !all_ours(context, attr->ind_tbl, count))
		return fail_null(EINVAL);
	if (!adapter_take(&table_count, HCA_MAX_WQ_TABLES))
		return fail_null(ENOMEM);
	t = calloc(1, sizeof(*t) + count * (sizeof(t->queue[0]) + sizeof(t->wq[0])));
	if (!t) {
		adapter_give(&table_count);
		return NULL;
	}
	t->wq = (struct wq **)(t->queue + count);
	t->count = count;
	for (uint32_t i = 0; i < count; i++) {
		t->wq[i] = (struct wq *)attr->ind_tbl[i];
		t->queue[i] = t->wq[i]->qp;
		atomic_fetch_add_explicit(&t->wq[i]->users, 1, memory_order_relaxed);
	}
	t->base.context = context;
	t->base.ind_tbl_handle = t->base.ind_tbl_num = atomic_fetch_add_explicit(&handles, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&context_of(context)->objects, 1, memory_order_relaxed);
	check_made(CHECK_WQ_TABLE, t, 0, context, attr->ind_tbl[0]);
	return &t->base;
}

static int destroy_rwq_ind_table(struct ibv_rwq_ind_table *base)
{
	struct wq_table *t = (struct wq_table *)base;

	if (atomic_load_explicit(&t->users, memory_order_acquire)) {
		check_busy(CHECK_WQ_TABLE, t);
		return fail(EBUSY);
	}
	check_gone(CHECK_WQ_TABLE, t);
	for (uint32_t i = 0; i < t->count; i++)
		atomic_fetch_sub_explicit(&t->wq[i]->users, 1, memory_order_release);
	atomic_fetch_sub_explicit(&context_of(base->context)->objects, 1, memory_order_release);
	adapter_give(&table_count);
	free(t);
	return 0;
}

struct hash_qp {
	struct rss rss; /* must be first */
	struct wq_table *table;
};

/* As the man page says: IPv4 and IPv6 fields must not be combined, nor TCP and UDP fields. */
static bool fields_allowed(uint64_t fields)
{
	const uint64_t v4 = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4,
		       v6 = IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6;
	const uint64_t tcp = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP,
		       udp = IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;

	return !(fields & ~(uint64_t)RSS_FIELDS) && !((fields & v4) && (fields & v6)) &&
	       !((fields & tcp) && (fields & udp));
}

int rss_create(const struct ibv_qp_init_attr_ex *a, const struct rss **rss)
{
	const struct ibv_rx_hash_conf *conf = &a->rx_hash_conf;
	struct hash_qp *h;

	if (!(a->comp_mask & IBV_QP_INIT_ATTR_RX_HASH) || !(a->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE) ||
	    !a->rwq_ind_tbl || a->qp_type != IBV_QPT_RAW_PACKET)
		return EINVAL;
	if (conf->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ || !fields_allowed(conf->rx_hash_fields_mask))
		return EOPNOTSUPP;
	if (conf->rx_hash_key_len != RSS_KEY || !conf->rx_hash_key)
		return EINVAL;
	h = calloc(1, sizeof(*h));
	if (!h)
		return ENOMEM;
	h->table = (struct wq_table *)a->rwq_ind_tbl;
	memcpy(h->rss.key, conf->rx_hash_key, RSS_KEY);
	h->rss.fields = conf->rx_hash_fields_mask;
	h->rss.mask = h->table->count - 1;
	h->rss.table = h->table->queue;
	atomic_fetch_add_explicit(&h->table->users, 1, memory_order_relaxed);
	*rss = &h->rss;
	return 0;
}

void rss_destroy(const struct rss *rss)
{
	struct hash_qp *h = (struct hash_qp *)rss;

	if (!h)
		return;
	atomic_fetch_sub_explicit(&h->table->users, 1, memory_order_release);
	free(h);
}

void table_add_wq(struct verbs_context *v)
{
	v->create_wq = create_wq;
	v->modify_wq = modify_wq;
	v->destroy_wq = destroy_wq;
	v->create_rwq_ind_table = create_rwq_ind_table;
	v->destroy_rwq_ind_table = destroy_rwq_ind_table;
}
