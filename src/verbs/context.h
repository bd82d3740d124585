/* SPDX-License-Identifier: BSD-2-Clause */
/* An open device (ibv_context). ibv_open_device() creates it, ibv_close_device() frees it: open.c. All contexts of a
 * process share one hca. */
#ifndef UROCE_VERBS_CONTEXT_H
#define UROCE_VERBS_CONTEXT_H

#include <infiniband/verbs.h>

#include "base/base.h"
#include "base/list.h"
#include "base/lock.h"
#include "device/listen.h"
#include "device/monitor.h"

struct hca;

struct context {
	struct verbs_context verbs; /* the application holds a pointer to its last member, `context` */
	struct device *device;
	struct hca *hca;
	uint64_t group;		  /* equal for contexts that may import each other's objects */
	_Atomic uint32_t objects; /* objects of this context that exist */
	struct monitor_user user; /* told of changes of devices */

	struct listen listen; /* addresses at which it receives datagrams */

	struct lock lock;		      /* async.c */
	struct list events GUARDED_BY(&lock); /* asynchronous events not fetched yet */
};

static inline struct context *context_of(struct ibv_context *c)
{
	return container_of(c, struct context, verbs.context);
}

/* True if an object of one context can be imported into the other. */
static inline bool context_same(struct ibv_context *a, struct ibv_context *b)
{
	return context_of(a)->group == context_of(b)->group;
}

#endif
