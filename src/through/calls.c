// SPDX-License-Identifier: BSD-2-Clause
/* The calls of libibverbs that make objects, change them, destroy them, and wait. Each has its version there. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "check/events.h"
#include "check/lifetime.h"
#include "check/qp.h"
#include "check/regions.h"
#include "check/start.h"
#include "memory/fault.h"
#include "through/batch.h"
#include "through/context.h"
#include "through/followed.h"
#include "through/made.h"
#include "through/next.h"
#include "through/shadow.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* ---- contexts and domains ---- */

PUBLIC struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *context = NEXT(ibv_open_device, "IBVERBS_1.1")(device);

	if (context)
		through_take(context);
	if (through_follows(context) && through_is_of_program(CALLER))
		check_made(CHECK_CONTEXT, context, 0);
	return context;
}

PUBLIC int ibv_close_device(struct ibv_context *context)
{
	if (through_follows(context)) {
		check_gone(CHECK_CONTEXT, context);
		followed_drop(context);
	}
	return NEXT(ibv_close_device, "IBVERBS_1.1")(context);
}

PUBLIC struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = NEXT(ibv_alloc_pd, "IBVERBS_1.1")(context);

	if (pd && through_follows(context) && through_is_of_program(CALLER))
		check_made(CHECK_PD, pd, 0, context);
	return pd;
}

/* The object is gone, or others use it. */
static int destroyed(int error, enum check_kind kind, const void *object)
{
	if (!error)
		check_gone(kind, object);
	else if (error == EBUSY)
		check_busy(kind, object);
	return error;
}

/* destroyed() of an object with a shadow, or with none. */
static int shadow_destroyed(struct shadow *s, int error)
{
	struct batch *b;

	if (!s)
		return error;
	destroyed(error, s->kind, &s->as);
	if (error)
		return error;
	b = s->batch;
	shadow_drop(s);
	batch_free(b);
	return error;
}

PUBLIC int ibv_dealloc_pd(struct ibv_pd *pd)
{
	bool follows = through_follows(pd->context);
	int error = NEXT(ibv_dealloc_pd, "IBVERBS_1.1")(pd);

	return follows ? destroyed(error, CHECK_PD, pd) : error;
}

PUBLIC struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = NEXT(ibv_create_ah, "IBVERBS_1.1")(pd, attr);

	if (ah && through_follows(pd->context))
		check_made(CHECK_AH, ah, 0, pd);
	return ah;
}

PUBLIC int ibv_destroy_ah(struct ibv_ah *ah)
{
	bool follows = through_follows(ah->context);
	int error;

	if (follows)
		check_destroys_ah(ah);
	error = NEXT(ibv_destroy_ah, "IBVERBS_1.1")(ah);

	return follows ? destroyed(error, CHECK_AH, ah) : error;
}

/* ---- regions ---- */

static struct ibv_mr *made_mr(struct ibv_mr *mr, int access)
{
	struct shadow *s;

	if (!mr || !through_follows(mr->context) || shadow_of(CHECK_MR, mr)) /* one of these may call another */
		return mr;
	s = shadow_make(CHECK_MR, mr);
	if (!s)
		return mr;
	fault_arm(); /* memory that is looked at may have been unmapped */
	s->as.mr.base = *mr;
	s->as.mr.memory = mr->addr;
	s->as.mr.iova = (uintptr_t)mr->addr;
	s->as.mr.length = mr->length;
	s->as.mr.access = (unsigned)access;
	shadow_add(s);
	check_made(CHECK_MR, &s->as.mr, mr->length, mr->pd);
	return mr;
}

PUBLIC struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t length, int access)
{
	return made_mr(NEXT(ibv_reg_mr, "IBVERBS_1.1")(pd, at, length, access), access);
}

PUBLIC struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *at, size_t length, uint64_t iova, int access)
{
	return made_mr(NEXT(ibv_reg_mr_iova, "IBVERBS_1.7")(pd, at, length, iova, access), access);
}

PUBLIC struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t length, uint64_t iova, unsigned int access)
{
	return made_mr(NEXT(ibv_reg_mr_iova2, "IBVERBS_1.8")(pd, at, length, iova, access), (int)access);
}

/* As the region is now. */
static void mr_shown(struct shadow *s, int flags, void *at, size_t length, int access)
{
	s->as.mr.base = *(struct ibv_mr *)s->real;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		s->as.mr.memory = at;
		s->as.mr.iova = (uintptr_t)at;
		s->as.mr.length = length;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		s->as.mr.access = (unsigned)access;
}

PUBLIC int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *at, size_t length, int access)
{
	struct shadow *s = shadow_of(CHECK_MR, mr);
	int error;

	if (s)
		check_reregisters(&s->as.mr.base);
	error = NEXT(ibv_rereg_mr, "IBVERBS_1.1")(mr, flags, pd, at, length, access);
	if (!s || error)
		return error;
	mr_shown(s, flags, at, length, access);
	check_remade(CHECK_MR, &s->as.mr, s->as.mr.length, mr->pd);
	return 0;
}

PUBLIC int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct shadow *s = shadow_of(CHECK_MR, mr);

	if (s)
		check_deregisters(&s->as.mr.base);
	return shadow_destroyed(s, NEXT(ibv_dereg_mr, "IBVERBS_1.1")(mr));
}

/* ---- channels and CQs ---- */

PUBLIC struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = NEXT(ibv_create_comp_channel, "IBVERBS_1.0")(context);

	if (channel && through_follows(context))
		check_made(CHECK_CHANNEL, channel, 0, context);
	return channel;
}

PUBLIC int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	bool follows = through_follows(channel->context);
	int error = NEXT(ibv_destroy_comp_channel, "IBVERBS_1.0")(channel);

	return follows ? destroyed(error, CHECK_CHANNEL, channel) : error;
}

PUBLIC struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq = NEXT(ibv_create_cq, "IBVERBS_1.1")(context, cqe, cq_context, channel, vector);

	if (cq && through_follows(context))
		made_cq(cq);
	return cq;
}

PUBLIC int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct shadow *s = shadow_of(CHECK_CQ, cq);

	shadow_await_acknowledged(s, "ibv_destroy_cq()");
	return shadow_destroyed(s, NEXT(ibv_destroy_cq, "IBVERBS_1.1")(cq));
}

/* True if a wait for an event of the channel would have no end now. */
static bool would_block(const struct ibv_comp_channel *channel)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};

	return !(fcntl(channel->fd, F_GETFL) & O_NONBLOCK) && poll(&p, 1, 0) == 0;
}

PUBLIC int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct shadow *s;
	int result;

	if (through_follows(channel->context)) {
		check_waited(channel);
		if (would_block(channel))
			check_blocks(channel);
	}
	result = NEXT(ibv_get_cq_event, "IBVERBS_1.1")(channel, cq, cq_context);
	s = result ? NULL : shadow_of(CHECK_CQ, *cq);
	if (s) {
		__atomic_add_fetch(&s->fetched, 1, __ATOMIC_RELAXED);
		check_fetched(ibv_cq_ex_to_cq(&s->as.cq.base));
	}
	return result;
}

PUBLIC void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	struct shadow *s = shadow_of(CHECK_CQ, cq);

	if (s)
		__atomic_add_fetch(&s->acknowledged, count,
				   __ATOMIC_RELEASE); /* pairs with shadow_await_acknowledged() */
	NEXT(ibv_ack_cq_events, "IBVERBS_1.1")(cq, count);
}

/* ---- queues ---- */

PUBLIC struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = NEXT(ibv_create_srq, "IBVERBS_1.1")(pd, attr);

	if (srq && through_follows(pd->context))
		made_srq(srq);
	return srq;
}

PUBLIC int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct shadow *s = shadow_of(CHECK_SRQ, srq);

	return shadow_destroyed(s, NEXT(ibv_destroy_srq, "IBVERBS_1.1")(srq));
}

PUBLIC struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = NEXT(ibv_create_qp, "IBVERBS_1.1")(pd, attr);

	if (qp && through_follows(pd->context))
		made_qp(qp, NULL, &attr->cap, attr->sq_sig_all);
	return qp;
}

PUBLIC int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct shadow *s = shadow_of(CHECK_QP, qp);
	int error;

	if (s && mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET)
		check_ends_qp(&s->as.qp.base, s->as.qp.state, "moved to RESET");
	error = NEXT(ibv_modify_qp, "IBVERBS_1.1")(qp, attr, mask);

	if (!s || error)
		return error;
	if (mask & IBV_QP_DEST_QPN)
		s->as.qp.attr.dest_qp_num = attr->dest_qp_num;
	if (!(mask & IBV_QP_STATE))
		return 0;
	s->as.qp.state = attr->qp_state;
	if (attr->qp_state == IBV_QPS_RESET)
		check_forget_requests(&s->as.qp);
	check_moved(&s->as.qp.base);
	return 0;
}

PUBLIC int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct shadow *s = shadow_of(CHECK_QP, qp);

	if (s && qp->state == IBV_QPS_ERR) /* librdmacm may have moved it */
		s->as.qp.state = IBV_QPS_ERR;
	if (s)
		check_ends_qp(&s->as.qp.base, s->as.qp.state, "destroyed");
	return shadow_destroyed(s, NEXT(ibv_destroy_qp, "IBVERBS_1.1")(qp));
}

/* ---- fork ---- */

PUBLIC int ibv_fork_init(void)
{
	int error = NEXT(ibv_fork_init, "IBVERBS_1.1")();

	if (!error)
		check_fork_prepared();
	return error;
}
