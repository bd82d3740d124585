/* Datagrams between neighbors. A UD QP has no peer, so there is no path that counts its neighbor: each receiver that it keeps
 * in mind (object/flow.h) points to one, which is found by the top byte of the QPN that is sent to, if the address is that
 * which the datagram leaves from. What is unknown goes by udp, while the helper thread calls the process of that slot.
 *
 * The pointers are looked up and used under qp->lock alone. A neighbor that is lost is taken out of local.near first, then
 * out of all flows, each under its QP's lock: after that nobody can have it.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_NEARBY_H
#define UROCE_NEARBY_H

#include "engine/engine.h"

struct link_tx;
struct loop;
struct neighbor;

/* For turns. */
extern const struct near_ops nearby_ops;

/* Into the ring of tx->near, where there is room for it; or nowhere, if that is gone. False: its payload cannot be read. */
bool nearby_send(const struct tx *tx, const struct link_tx *out);

/* What a receiver has to say to one that asked, at the address of 16 bytes. False: there is no room in the ring. */
bool nearby_answer(struct neighbor *n, const struct packet *p, const uint8_t *here);

/* Its ring, to write to: with its lock, until local_leave(). NULL: it is gone. */
struct neighbor *nearby_enter(void *near);

/* No flow goes there from now on. */
void nearby_forget(struct loop *l, const struct neighbor *n);

#endif
