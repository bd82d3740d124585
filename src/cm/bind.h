/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports and listeners. Only the thread that uses the id calls. */
#ifndef UROCE_CM_BIND_H
#define UROCE_CM_BIND_H

#include "cm/id.h"

/* Binds the id to an address of this host or the wildcard, and to a port, chosen if the address has port 0. 0 or an
 * errno. */
int id_bind(struct id *id, const struct sockaddr *address) EXCLUDES(cm.lock);
/* Sets whether the port is shared with other ids that allow it. Allowed before and after the id gets a port. 0 or an
 * errno. */
int id_share_port(struct id *id, bool share) EXCLUDES(cm.lock);
/* Releases the port. */
void id_unbind(struct id *id) EXCLUDES(cm.lock);
/* Ends listening. */
void listener_remove(struct id *id) REQUIRES(cm.lock);
/* The listener for a message to that service (port and port space) and address, or NULL. */
struct id *listener_find(uint64_t service, const union ibv_gid *to) REQUIRES(cm.lock);
/* Attaches new addresses for wildcard listeners, in another thread. Never blocks. */
void listeners_look_around(void) EXCLUDES(cm.lock);
/* Chooses a port for an id that connects, unless it has one. */
void id_choose_port(struct id *id) EXCLUDES(cm.lock);

/* Drops all ports, in a child after fork() that has no threads yet. */
void ports_forget(void);

#endif
