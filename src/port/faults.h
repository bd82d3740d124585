/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults of packets: those that leave are changed in the tx batch, before transmit(); those that arrive in deliver().
 * What is delayed is held by the queue pair (inject_qp) and goes on by its timer. Behind hooks_any(). */
#ifndef UROCE_PORT_FAULTS_H
#define UROCE_PORT_FAULTS_H

#include "engine/hooks.h"
#include "loop/loop.h"

/* A packet that arrives: what is to be delivered in its place, how many times. The caller frees `copy`. */
struct fault_arrival {
	struct packet *packet;
	const union ibv_gid *from;
	bool by_port; /* it came by UDP */
	void *copy;
	uint32_t times;
};

/* False: it does not arrive, or not now. */
bool faults_arrive(struct loop *l, struct qp *qp, struct fault_arrival *a, uint64_t now) REQUIRES(qp->lock);
/* After it has: what was held for a packet to pass arrives. */
void faults_arrived(struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* Changes the packets of the tx batch, drops some, repeats some. `near`: the local peer, locked, or NULL. */
void faults_send(struct loop *l, struct qp *qp, struct tx_batch *batch, struct local_peer *near) REQUIRES(qp->lock);
/* After the tx batch: what was held and is due leaves. */
void faults_sent(struct loop *l, struct qp *qp, struct local_peer *near, uint64_t now) REQUIRES(qp->lock);
/* The QP ends, or the process: what is held of what it has sent is on its way, and leaves now. */
void faults_release(struct qp *qp) REQUIRES(qp->lock);
void faults_release_all(struct loop *l);
/* The same when the timer of the QP has fired. */
void faults_expire(struct loop *l, struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* Before a tx batch is made: posts may be late. Returns the room that it may use, as each of its packets may be sent
 * twice. */
uint32_t faults_before(struct qp *qp, uint32_t room, uint64_t now) REQUIRES(qp->lock);
static inline uint32_t faults_room(struct qp *qp, uint32_t room, uint64_t now) REQUIRES(qp->lock)
{
	return hooks_any() ? faults_before(qp, room, now) : room;
}

/* Sets the lanes of all queue pairs anew. */
void faults_renew_lanes(void);

#endif
