/* SPDX-License-Identifier: BSD-2-Clause */
/* A protection domain; also a parent domain or an imported PD. verbs/pd.c and verbs/domain.c create and free it;
 * `users` counts the objects in it. All other fields are constant. */
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
	struct ibv_pd base; /* the application's object: first */
	struct hca *hca;
	_Atomic uint32_t users;
	struct list all;		   /* link in the list of PDs that can be imported: verbs/pd.c */
	const struct ibv_context *made_in; /* original values of the context and handle: see pd_check() */
	uint32_t handle;
	struct pd *domain; /* PD that protects: pd_domain(). NULL: itself */

	bool is_parent; /* a parent domain; else, if `domain` is set, an import */

	/* Allocator of a parent domain for its queues. */
	pd_alloc *alloc;
	pd_free *free;
	void *context;
};

/* The handle of a destroyed object, where it can still be read. */
#define NO_HANDLE UINT32_MAX

/* Checks a PD. ENOENT: destroyed or overwritten, as the kernel reports an unknown handle; EINVAL: `base` is NULL; 0:
 * valid. */
static inline int pd_check(const struct ibv_pd *base)
{
	const struct pd *pd = (const struct pd *)base;

	return !pd ? EINVAL : base->handle != pd->handle || base->context != pd->made_in ? ENOENT : 0;
}

/* The domain that protects: objects of one domain may use each other, whichever of its PDs they were created with. */
static inline struct pd *pd_domain(struct pd *pd)
{
	return pd->domain ?: pd;
}

/* The PD whose `users` counts the objects created with `pd`. An import may be freed before them. */
static inline struct pd *pd_holder(struct pd *pd)
{
	return pd->is_parent ? pd : pd_domain(pd);
}

/* The use of a queue's memory: part of the resource type that an allocator is passed, see uroce(7). */
enum buffer_kind {
	BUFFER_SEND = 1,
	BUFFER_RECEIVE,
	BUFFER_SHARED_RECEIVE,
	BUFFER_COMPLETION,
};

/* Allocates memory for a queue, aligned to CACHE_LINE, not zeroed; from the allocator of the PD if it has one (`pd` may
 * be NULL). *from is for buffer_free(). NULL: out of memory. */
void *buffer_alloc(struct pd *pd, size_t size, enum buffer_kind kind, struct pd **from);
void buffer_free(void *at, enum buffer_kind kind, struct pd *from);

#endif
