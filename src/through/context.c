// SPDX-License-Identifier: BSD-2-Clause
/* Contexts of the device that is followed, and the operations that are reached by them. */
#include "through/through.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/scope.h"
#include "check/start.h"
#include "check/lifetime.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/msan.h"
#include "through/calls.h"

#define CONTEXTS 64 /* at once; others are not followed */

static struct {
	const struct ibv_context *context; /* NULL: free */
	struct ibv_context_ops ops;
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
} followed[CONTEXTS];
static struct lock followed_lock; /* of finding a free one */
static bool any_opened;

void *through_next(const char *name, const char *version)
{
	void *next = dlvsym(RTLD_NEXT, name, version);

	if (next)
		return next;
	log_error("--through: libibverbs has no %s@%s", name, version);
	abort();
}

static int index_of(const struct ibv_context *context)
{
	int i = 0;

	while (i < CONTEXTS && followed[i].context != context)
		i++;
	return i;
}

bool through_checks(void)
{
	return hook_is_on(HOOK_CHECK);
}

bool through_follows(const struct ibv_context *context)
{
	return context && index_of(context) < CONTEXTS;
}

const struct ibv_context_ops *through_ops(const struct ibv_context *context)
{
	return &followed[index_of(context)].ops;
}

/* ---- of the extended context ---- */

static struct ibv_cq_ex *from_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *cq = followed[index_of(context)].create_cq_ex(context, attr);

	if (cq)
		made_cq_ex(cq, attr->wc_flags);
	return cq;
}

static struct ibv_qp *from_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = followed[index_of(context)].create_qp_ex(context, attr);

	bool takes_batches = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && attr->send_ops_flags;

	if (qp)
		made_qp(qp, takes_batches ? NEXT(ibv_qp_to_qp_ex, "IBVERBS_1.6")(qp) : NULL, &attr->cap,
			attr->sq_sig_all);
	return qp;
}

static struct ibv_srq *from_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq *srq = followed[index_of(context)].create_srq_ex(context, attr);

	if (srq && !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type != IBV_SRQT_BASIC))
		made_srq(srq);
	return srq;
}

static struct ibv_mw *from_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = through_ops(pd->context)->alloc_mw(pd, type);

	if (mw)
		check_made(CHECK_MW, mw, 0, pd);
	return mw;
}

static int from_dealloc_mw(struct ibv_mw *mw)
{
	int error = through_ops(mw->context)->dealloc_mw(mw);

	if (!error)
		check_gone(CHECK_MW, mw);
	return error;
}

static void take_extended(int i, struct ibv_context *context)
{
	struct verbs_context *v = verbs_get_ctx(context);

	if (!v)
		return;
	followed[i].create_cq_ex = v->create_cq_ex;
	followed[i].create_qp_ex = v->create_qp_ex;
	followed[i].create_srq_ex = v->create_srq_ex;
	v->create_cq_ex = v->create_cq_ex ? from_create_cq_ex : NULL;
	v->create_qp_ex = v->create_qp_ex ? from_create_qp_ex : NULL;
	v->create_srq_ex = v->create_srq_ex ? from_create_srq_ex : NULL;
}

void through_take(struct ibv_context *context)
{
	const char *device = config_string(CONFIG_THROUGH);
	int i;

	if (!device || strcmp(context->device->name, device) || !hook_is_on(HOOK_CHECK))
		return;
	any_opened = true;
	lock_take(&followed_lock);
	i = index_of(NULL);
	if (i < CONTEXTS) {
		followed[i].ops = context->ops;
		followed[i].context = context;
	}
	lock_drop(&followed_lock);
	if (i == CONTEXTS)
		return;
	take_extended(i, context);
	context->ops.alloc_mw = from_alloc_mw;
	context->ops.dealloc_mw = from_dealloc_mw;
	through_take_requests(&context->ops);
}

void through_leave(const struct ibv_context *context)
{
	int i = index_of(context);

	if (i < CONTEXTS)
		followed[i].context = NULL;
}

/* ---- beginning and end ---- */

__attribute__((constructor)) static void through_start(void)
{
	check_is_through = true;
	msan_unpoison = NULL; /* it would have to know what the adapter's libraries store */
	if (config_string(CONFIG_THROUGH))
		check_start();
}

__attribute__((destructor)) static void through_end(void)
{
	if (hook_is_on(HOOK_CHECK) && !any_opened)
		log_warn("--through: the program has opened no device '%s': nothing was looked at",
			 config_string(CONFIG_THROUGH) ?: "");
}
