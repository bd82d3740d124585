/* SPDX-License-Identifier: BSD-2-Clause */
/* Resolution of addresses and routes. */
#ifndef UROCE_CM_RESOLVE_H
#define UROCE_CM_RESOLVE_H

#include "cm/id.h"

/* Resolves the route, for rdma_resolve_route(), and posts the event. 0 or an errno. */
int id_resolve_route(struct id *id) EXCLUDES(cm.lock);

/* Checks the neighbor (ARP, ND) entries that are due. Returns the time of the next call (ns), or NEVER. */
uint64_t resolve_look(uint64_t now) REQUIRES(cm.lock);

#endif
