/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses whose port is down: no packet leaves from them or to them, and none that arrives there is delivered; local
 * peers access no memory by them. All processes of a user know the same ones (device/link_state.h). While there is one,
 * HOOK_PORT_DOWN is on. Any thread may call. */
#ifndef UROCE_PORT_DOWN_H
#define UROCE_PORT_DOWN_H

#include "base/hooks.h"
#include "link/link.h"
#include "object/qp.h"

struct link_tx;
struct link;

/* Takes the place of the list before. */
void loop_set_down(const union ibv_gid *list, uint32_t count);

/* Whether either end of the path is. */
bool path_is_down(const struct path *path);
bool address_is_down(const union ibv_gid *address);

/* Whether a packet that goes out by this link gets nowhere. */
bool down_drops(const struct link *link, const struct link_tx *tx);

#endif
