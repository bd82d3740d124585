/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: allocation and bind requests. The binding rules are in object/window.c, because the requester binds.
 */
#include "check/lifetime.h"
#include "device/front.h"
#include "fault/inject.h"
#include "object/window.h"
#include "verbs/context.h"
#include "verbs/post.h"
#include "verbs/table.h"

static struct ibv_mw *alloc_mw(struct ibv_pd *base, enum ibv_mw_type type)
{
	struct pd *pd = (struct pd *)base;
	int error = pd_check(base);
	struct mr *w;

	if (inject_call(CALL_ibv_alloc_mw))
		return NULL;
	if (error || (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2))
		return fail_null(error ?: EINVAL);
	w = window_create(pd, type);
	if (!w)
		return NULL;
	atomic_fetch_add_explicit(&w->pd->users, 1, memory_order_relaxed);
	check_made(CHECK_MW, w, 0, pd);
	return &w->window;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	struct mr *w = (struct mr *)mw;
	struct pd *pd = w->pd;

	if (mw->handle != w->index)
		return fail(ENOENT);
	check_gone(CHECK_MW, w);
	window_destroy(w);
	atomic_fetch_sub_explicit(&pd->users, 1, memory_order_release);
	return 0;
}

/* Binds a type 1 window: the new key is known when the request is posted. */
static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = {
					 .wr_id = bind->wr_id,
					 .opcode = IBV_WR_BIND_MW,
					 .send_flags = bind->send_flags,
					 .bind_mw = {mw, ibv_inc_rkey(mw->rkey), bind->bind_info},
				 };
	const struct ibv_mw_bind_info *info = &bind->bind_info;

	/* newer programs get this check from verbs.h */
	if (!info->mr && (info->addr || info->length))
		return EINVAL;
	if (info->mr && info->mr->pd != mw->pd)
		return EPERM;
	return post_send(qp, &wr, &bad); /* post_send() stores the key */
}

void table_add_mw(struct verbs_context *v)
{
	v->context.ops.alloc_mw = alloc_mw;
	v->context.ops.bind_mw = bind_mw;
	v->context.ops.dealloc_mw = dealloc_mw;
}
