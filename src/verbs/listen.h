/* SPDX-License-Identifier: BSD-2-Clause */
/* The addresses at which a context receives datagrams: all addresses of its device, from the first address handle or UD
 * QP that needs them to the last. An address stays bound until then, so the link that an address handle refers to
 * exists as long as a UD QP of the context can send. */
#ifndef UROCE_LISTEN_H
#define UROCE_LISTEN_H

#include "verbs/context.h"

/* For an address handle: sets path->port to the port of path->sgid. 0, or the error of loop_attach(). */
int listen_at(struct context *c, struct path *path) EXCLUDES(c->listen_lock);
/* For a UD QP that starts to receive: binds every address of the device that can be bound. 0, or the error of
 * loop_attach() if none can be bound. */
int listen_everywhere(struct context *c) EXCLUDES(c->listen_lock);
/* Call once for each successful call above. */
void listen_leave(struct context *c) EXCLUDES(c->listen_lock);
/* The context is closed: drops all remaining uses. No UD QP of the context can send any more. */
void listen_end(struct context *c) EXCLUDES(c->listen_lock);

#endif
