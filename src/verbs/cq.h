/* SPDX-License-Identifier: BSD-2-Clause */
/* A completion queue with what only this front needs to know of it. */
#ifndef UROCE_CQ_FRONT_H
#define UROCE_CQ_FRONT_H

#include "object/cq.h"

struct cq_front {
	struct cq cq;		 /* first, so the application's pointer is one to this, too */
	uint32_t handle;	 /* constant */
	uint32_t fetched;	 /* channel events handed out: guarded by the channel's lock */
	int timer;		 /* of moderation; -1: none yet */
	_Atomic uint16_t period; /* us: how long moderation may hold an event back; 0: for ever. Relaxed */
	uint32_t async_fetched;	 /* asynchronous events handed out: guarded by the context's lock */

	/* of a CQ made by create_cq_ex: the completion that its read functions speak of. The application
	 * polls from one thread at a time. */
	struct cqe now;
	uint64_t now_time, now_wallclock; /* ns; taken only if asked for at creation */
	bool wants_time, wants_wallclock;
};

static inline struct cq_front *cq_front_of(struct ibv_cq *cq)
{
	return (struct cq_front *)cq;
}

/* As pd_check(). */
static inline int cq_check(const struct ibv_cq *cq)
{
	return !cq ? EINVAL : cq->handle != ((const struct cq_front *)cq)->handle ? ENOENT : 0;
}

/* `channel` and `holder` (a parent domain) may be NULL. NULL and errno: EINVAL (size, completion vector, a channel of
 * another context), ENOMEM. */
struct cq_front *cq_front_create(struct ibv_context *c, uint32_t cqe, void *cq_context,
				 struct ibv_comp_channel *channel, uint32_t comp_vector, struct pd *holder);

/* Takes up to `max` completions; if there are none, makes progress and looks again. */
int cq_front_poll(struct cq *cq, int max, struct cqe *out);

#endif
