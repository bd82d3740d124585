/* SPDX-License-Identifier: BSD-2-Clause */
/* A protection domain; or what extends or stands for one: a parent domain, an import. Made and freed by verbs/pd.c and
 * verbs/domain.c; `users` counts the objects in it. All but that is constant. */
#ifndef UROCE_PD_H
#define UROCE_PD_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"

struct hca;

typedef void *pd_alloc(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type);
typedef void pd_free(struct ibv_pd *pd, void *context, void *at, uint64_t type);

struct pd {
	struct ibv_pd base; /* what the application holds: first */
	struct hca *hca;
	_Atomic uint32_t users;
	struct list all;		   /* of those that can be imported: verbs/pd.c */
	const struct ibv_context *made_in; /* and its handle, as they were at first: see pd_check() */
	uint32_t handle;
	struct pd *domain; /* whose memory and queues go together: see pd_domain(). NULL: its own */

	bool is_parent; /* a parent domain; else, with a domain, an import */

	/* of a parent domain: where the memory of its queues comes from */
	pd_alloc *alloc;
	pd_free *free;
	void *context;
};

/* Of what is gone, where that can be told. */
#define NO_HANDLE UINT32_MAX

/* Objects are known to the kernel by their handles, so one that is gone or overwritten is told from one that is there:
 * ENOENT. EINVAL: there is none; 0: it is what it was made to be. */
static inline int pd_check(const struct ibv_pd *base)
{
	const struct pd *pd = (const struct pd *)base;

	return !pd ? EINVAL : base->handle != pd->handle || base->context != pd->made_in ? ENOENT : 0;
}

/* What protects: objects of one domain may use each other, whichever of its PDs they were made with. */
static inline struct pd *pd_domain(struct pd *pd)
{
	return pd->domain ?: pd;
}

/* Whose `users` counts what is made with it. An import may go before that does. */
static inline struct pd *pd_holder(struct pd *pd)
{
	return pd->is_parent ? pd : pd_domain(pd);
}

/* What the memory of queues is for: part of the resource type that an allocator is told, see uroce(7). */
enum buffer_kind {
	BUFFER_SEND = 1,
	BUFFER_RECEIVE,
	BUFFER_SHARED_RECEIVE,
	BUFFER_COMPLETION,
};

/* Memory for a queue, at a multiple of CACHE_LINE, not zeroed, from the PD's allocator if it has one (`pd` may be
 * NULL). *from is for buffer_free(). NULL: there is none. */
void *buffer_alloc(struct pd *pd, size_t size, enum buffer_kind kind, struct pd **from);
void buffer_free(void *at, enum buffer_kind kind, struct pd *from);

#endif
