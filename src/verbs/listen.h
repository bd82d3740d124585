/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the datagrams of a context come in: at every address of its device, from the first address handle or
 * UD QP that needs it to the last. What is bound stays bound until then, so that a link that an address
 * handle names is there as long as any UD QP of the context can send.
 */
#ifndef UROCE_LISTEN_H
#define UROCE_LISTEN_H

#include "verbs/context.h"

/* For an address handle: fills path->port for path->sgid. 0 or what loop_attach() said. */
int listen_at(struct context *c, struct path *path) EXCLUDES(c->listen_lock);
/* For a UD QP that begins to receive: binds whatever of the device's addresses can be bound. 0, or what
 * loop_attach() said if none can. */
int listen_everywhere(struct context *c) EXCLUDES(c->listen_lock);
/* For each successful call above, once. */
void listen_leave(struct context *c) EXCLUDES(c->listen_lock);
/* The context is closed: whoever has not left has left now. No UD QP of it can send any more. */
void listen_end(struct context *c) EXCLUDES(c->listen_lock);

#endif
