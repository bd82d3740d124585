/* SPDX-License-Identifier: BSD-2-Clause */
/* A completion queue as verbs/ has it. ibv_create_cq() creates it, ibv_destroy_cq() frees it. */
#ifndef UROCE_VERBS_CQ_FRONT_H
#define UROCE_VERBS_CQ_FRONT_H

#include "object/cq.h"
#include "verbs/turn.h"

struct cq_front {
	struct cq cq;		 /* must be first: the application's pointer points to it */
	struct list all;	 /* in cqs; guarded by cqs_lock */
	uint32_t handle;	 /* constant */
	struct list of_channel;	 /* channel->cqs */
	uint32_t fetched;	 /* number of channel events fetched; guarded by the channel's lock */
	int timer;		 /* timer of event moderation; -1: not created yet */
	_Atomic uint16_t period; /* us: the longest time that moderation delays an event; 0: no limit. Relaxed */
	uint32_t async_fetched;	 /* number of asynchronous events fetched; guarded by the context's lock */

	/* CQs of create_cq_ex(): the completion that the read functions return. Written and read by the thread that has
	 * the turn, from start_poll() to end_poll(). */
	struct turn turn;
	bool is_single; /* IBV_CREATE_CQ_ATTR_SINGLE_THREADED: there are no turns. Constant */
	struct cqe now;
	uint64_t now_time, now_wallclock; /* ns; read only if requested at creation */
	bool wants_time, wants_wallclock;
};

static inline struct cq_front *cq_front_of(struct ibv_cq *cq)
{
	return (struct cq_front *)cq;
}

/* 0, EINVAL or ENOENT, as pd_check(). */
static inline int cq_check(const struct ibv_cq *cq)
{
	return !cq ? EINVAL : cq->handle != ((const struct cq_front *)cq)->handle ? ENOENT : 0;
}

#endif
