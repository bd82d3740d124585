/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams between local peers. A UD QP has no peer, so no path counts as a user of its local peer. Instead each
 * flow of the QP (object/flow.h) points to its receiver's local peer, which is found by the slot in the
 * destination QPN if the address is the one that the datagram leaves from. Datagrams to a process that is not known
 * go by udp; the helper thread calls the process of that slot meanwhile.
 *
 * The pointers are read and used under qp->lock alone, or for MADs, which have no QP, under local.mads_lock. A
 * local peer that is lost is removed first from local.near, then from all flows, each under its QP's lock; then
 * local.mads_lock is taken once. After that no thread can have a pointer to it. */
#ifndef UROCE_PORT_NEARBY_H
#define UROCE_PORT_NEARBY_H

#include "engine/engine.h"
#include "loop/loop.h"

struct link_tx;
struct loop;
struct local_peer;

/* The calls by which the engine's tx batches reach local peers. */
extern const struct near_ops nearby_ops;

/* Writes a datagram to the ring of a local peer, where room is reserved for it; drops it if the local peer is gone.
 * False: the payload cannot be read. */
bool nearby_send(struct local_peer *peer, const struct link_tx *tx);

/* Sends a receiver's credit grant to the QP that requested it, from the 16-byte address `here` to `there`. False: the
 * ring has no room. */
bool nearby_answer(struct local_peer *peer, const struct packet *p, const uint8_t *here, const union ibv_gid *there);

/* Sends a datagram for which no room is reserved. False: the ring has no room. */
bool nearby_put(struct local_peer *peer, const struct link_tx *tx);

/* Sends a MAD to the process of that slot, from path->sgid, which is that process's address too. False: the process is
 * no local peer, or the ring has no room. Any thread may call, with any lock but a local peer's. */
bool nearby_send_mad(struct loop *l, uint16_t slot, const struct link_tx *mad);

#endif
