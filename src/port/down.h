/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses whose port is down. Packets from them, to them or arriving there are dropped, and local peers access no
 * memory by them. All processes of a user know the same addresses (device/link_state.h). HOOK_PORT_DOWN is on while
 * there is one. Any thread may call. */
#ifndef UROCE_PORT_DOWN_H
#define UROCE_PORT_DOWN_H

#include "base/hooks.h"
#include "link/link.h"
#include "object/qp.h"

struct link_tx;
struct link;

/* Replaces the list of addresses. Without memory the old list stays. */
void loop_set_down(const union ibv_gid *list, uint32_t count);

/* True if the port at either end of the path is down. */
bool path_is_down(const struct path *path);
/* True if the port of the address is down. */
bool address_is_down(const union ibv_gid *address);

/* True if the port of the packet's source or destination address is down. */
bool down_drops(const struct link *link, const struct link_tx *tx);

#endif
