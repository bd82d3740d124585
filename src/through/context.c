// SPDX-License-Identifier: BSD-2-Clause
#include "through/context.h"

#include <string.h>

#include "base/config.h"
#include "base/hooks.h"
#include "base/log.h"
#include "base/msan.h"
#include "check/lifetime.h"
#include "check/scope.h"
#include "check/start.h"
#include "through/followed.h"
#include "through/made.h"
#include "through/next.h"
#include "through/post.h"

static bool any_opened;

bool through_checks(void)
{
	return hook_is_on(HOOK_CHECK);
}

/* ---- of the extended context ---- */

static struct ibv_cq_ex *from_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *cq = followed_of(context)->create_cq_ex(context, attr);

	if (cq)
		made_cq_ex(cq, attr->wc_flags);
	return cq;
}

static struct ibv_qp *from_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = followed_of(context)->create_qp_ex(context, attr);

	bool takes_batches = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && attr->send_ops_flags;

	if (qp)
		made_qp(qp, takes_batches ? NEXT(ibv_qp_to_qp_ex, "IBVERBS_1.6")(qp) : NULL, &attr->cap,
			attr->sq_sig_all);
	return qp;
}

static struct ibv_srq *from_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq *srq = followed_of(context)->create_srq_ex(context, attr);

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

static void take_extended(struct followed *f, struct ibv_context *context)
{
	struct verbs_context *v = verbs_get_ctx(context);

	if (!v)
		return;
	f->create_cq_ex = v->create_cq_ex;
	f->create_qp_ex = v->create_qp_ex;
	f->create_srq_ex = v->create_srq_ex;
	v->create_cq_ex = v->create_cq_ex ? from_create_cq_ex : NULL;
	v->create_qp_ex = v->create_qp_ex ? from_create_qp_ex : NULL;
	v->create_srq_ex = v->create_srq_ex ? from_create_srq_ex : NULL;
}

void through_take(struct ibv_context *context)
{
	const char *device = config_string(CONFIG_THROUGH);
	struct followed *f;

	if (!device || strcmp(context->device->name, device) || !hook_is_on(HOOK_CHECK))
		return;
	any_opened = true;
	f = followed_add(context);
	if (!f)
		return;
	take_extended(f, context);
	context->ops.alloc_mw = from_alloc_mw;
	context->ops.dealloc_mw = from_dealloc_mw;
	through_take_requests(&context->ops);
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
