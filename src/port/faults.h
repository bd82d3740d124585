/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults of packets. Packets that leave are changed in the tx batch, before transmit(); packets that arrive, in
 * deliver(). A delayed packet is held by the queue pair (inject_qp) and goes on by its timer. Behind hooks_any(). */
#ifndef UROCE_PORT_FAULTS_H
#define UROCE_PORT_FAULTS_H

#include "engine/hooks.h"
#include "loop/loop.h"

/* A packet that arrives: what is to be delivered in its place, and how many times. The caller frees `copy`. */
struct fault_arrival {
	struct packet *packet;
	const union ibv_gid *from;
	bool by_port; /* came by UDP */
	void *copy;
	uint32_t times;
};

/* Asks the rules about a packet that arrives. False: the packet is not delivered, or not now. */
bool faults_arrive(struct loop *l, struct qp *qp, struct fault_arrival *a, uint64_t now) REQUIRES(qp->lock);
/* Called after the packet was delivered or dropped: delivers packets that were held until it had passed. */
void faults_arrived(struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* Changes, drops and repeats packets of the tx batch. `near`: the local peer, locked, or NULL. */
void faults_send(struct loop *l, struct qp *qp, struct tx_batch *batch, struct local_peer *near) REQUIRES(qp->lock);
/* Sends held packets that are due, after the tx batch. */
void faults_sent(struct loop *l, struct qp *qp, struct local_peer *near, uint64_t now) REQUIRES(qp->lock);
/* Sends all held packets now: the QP, or the process, ends. */
void faults_release(struct qp *qp) REQUIRES(qp->lock);
void faults_release_all(struct loop *l);
/* Handles held packets when the timer of the QP has fired. */
void faults_expire(struct loop *l, struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* Called before a tx batch is made: delays posts if a rule says so. Returns the bytes that the batch may use, fewer
 * than `room` as each packet may be sent twice. */
uint32_t faults_before(struct qp *qp, uint32_t room, uint64_t now) REQUIRES(qp->lock);
static inline uint32_t faults_room(struct qp *qp, uint32_t room, uint64_t now) REQUIRES(qp->lock)
{
	return hooks_any() ? faults_before(qp, room, now) : room;
}

/* Sets the lanes of all queue pairs again, after rules have changed. */
void faults_renew_lanes(void);

#endif
