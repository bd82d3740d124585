/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether anybody is there at all, where requests go unanswered. Of a host that has no socket at RoCE's port nothing
 * comes back, on a socket that is bound and sends to many; one that asks for errors is told that the port is closed, or
 * (by our own kernel, or a router) that the host cannot be reached. So a packet goes there from such a socket, which
 * means nothing to whoever is there and hears it.
 *
 * What cannot tell (a firewall that drops) tells nothing. */
#ifndef UROCE_PROBE_H
#define UROCE_PROBE_H

#include "cm/agent.h"

/* Asks on behalf of the connection with this id. Never blocks. */
void probe_send(const struct cm_address *address, uint32_t id) REQUIRES(cm.lock);
/* Hands out what has come back: whose it was, and -errno: ECONNREFUSED, or what says that there is no way. */
void probe_collect(void (*absent)(uint32_t id, int err)) REQUIRES(cm.lock);
/* In a child after fork. */
void probe_forget(void) REQUIRES(cm.lock);

#endif
