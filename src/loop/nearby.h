/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams between local peers. A UD QP has no peer, so there is no path that counts its local peer: each receiver
 * that it keeps in mind (object/flow.h) points to one, which is found by the top byte of the QPN that is sent to, if
 * the address is that which the datagram leaves from. What is unknown goes by udp, while the helper thread calls the
 * process of that slot.
 *
 * The pointers are looked up and used under qp->lock alone, or for MADs, which have no QP, under local.mads_lock. A
 * local peer that is lost is taken out of local.near first, then out of all flows, each under its QP's lock, and the
 * other lock has been held once: after that nobody can have it. */
#ifndef UROCE_NEARBY_H
#define UROCE_NEARBY_H

#include "engine/engine.h"

struct link_tx;
struct loop;
struct local_peer;

/* For turns. */
extern const struct near_ops nearby_ops;

/* A datagram into the ring of a local peer, where room is reserved for it; or nowhere, if that is gone. False: its
 * payload cannot be read. */
bool nearby_send(struct local_peer *n, const struct link_tx *tx);

/* What a receiver has to say to one that asked, at the address of 16 bytes. False: there is no room in the ring. */
bool nearby_answer(struct local_peer *n, const struct packet *p, const uint8_t *here);

/* A MAD to the process of that slot, from the address of path->sgid, which is its own as well. False: it is no local
 * peer, or there is no room in the ring. Any thread, with any lock but a local peer's. */
bool nearby_send_mad(struct loop *l, uint8_t slot, const struct link_tx *mad);

/* No flow goes there from now on. */
void nearby_forget(struct loop *l, const struct local_peer *n);

#endif
