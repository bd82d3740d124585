/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiters: callbacks for when the readiness of an rsocket may have changed. A thread that is about to sleep adds a
 * waiter, arms the rsocket, and looks at it once more. */
#ifndef UROCE_RSOCKET_WAITER_H
#define UROCE_RSOCKET_WAITER_H

#include "rsocket/rsocket.h"

void rsocket_wait_add(struct rsocket *rs, struct waiter *w);
void rsocket_wait_remove(struct rsocket *rs, struct waiter *w);
/* Calls all waiters. */
void rsocket_wake(struct rsocket *rs);
/* The `notify` of CQs whose cq_context is an rsocket. */
void rsocket_notify(struct cq *cq);

/* A waiter that writes an eventfd, once after each sleeper_sleeps(). */
struct sleeper {
	struct waiter waiter;
	int fd;
	bool sleeps; /* guarded by wait_lock */
};
/* The calling thread's eventfd; -errno. */
int sleeper_fd(void);
void sleeper_init(struct sleeper *s, int fd);
void sleeper_sleeps(struct rsocket *rs, struct sleeper *s);

#endif
