/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses whose port is down: no packet leaves from them or to them, and none that arrives there is delivered; local
 * peers access no memory by them. All processes of a user know the same ones (verbs/link_state.h). While there is one,
 * HOOK_PORT_DOWN is on. Any thread may call. */
#ifndef UROCE_DOWN_H
#define UROCE_DOWN_H

#include "base/hooks.h"
#include "object/qp.h"

struct link_tx;
struct link;

/* Takes the place of the list before. */
void loop_set_down(const union ibv_gid *list, uint32_t count);
/* After it: the QPs whose path is concerned change their link. The caller has a context open. */
void loop_renew_down(void);

bool address_is_down(const union ibv_gid *address);

/* Sets path->severed of the QP, and its link. Called where a path may be new. */
void down_renew(struct qp *qp) REQUIRES(qp->lock);

/* Whether a packet that goes out by this link gets nowhere. */
bool down_drops(const struct link *link, const struct link_tx *tx);

#endif
