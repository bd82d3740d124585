/* SPDX-License-Identifier: BSD-2-Clause */
/* The addresses at which a context receives datagrams: all addresses of its device, from the first address handle or UD
 * QP that needs them to the last. An address stays bound until then, so the link that an address handle refers to
 * exists as long as a UD QP of the context can send. */
#ifndef UROCE_DEVICE_LISTEN_H
#define UROCE_DEVICE_LISTEN_H

#include <stdint.h>

#include "base/lock.h"

struct device;
struct path;

struct listen {
	struct device *device; /* constant */
	struct lock lock;
	struct path *paths GUARDED_BY(&lock); /* bound paths */
	uint32_t count GUARDED_BY(&lock);     /* entries in `paths` */
	uint32_t users GUARDED_BY(&lock);     /* address handles and UD QPs */
};

/* For an address handle: sets path->port to the port of path->sgid. 0, or the error of loop_attach(). */
int listen_at(struct listen *l, struct path *path) EXCLUDES(l->lock);
/* For a UD QP that starts to receive: binds every address of the device that can be bound. 0, or the error of
 * loop_attach() if none can be bound. */
int listen_everywhere(struct listen *l) EXCLUDES(l->lock);
/* Undoes one successful call of the above. */
void listen_leave(struct listen *l) EXCLUDES(l->lock);
/* Drops all remaining uses, when the context is closed. No UD QP of the context can send any more. */
void listen_end(struct listen *l) EXCLUDES(l->lock);

#endif
