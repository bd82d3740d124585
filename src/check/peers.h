/* SPDX-License-Identifier: BSD-2-Clause */
/* WRITEs, READs and atomics of a peer, shown to ThreadSanitizer in the program: each queue pair has fibers (threads
 * to ThreadSanitizer) that do what the peer does. Loads and stores of the program that race with the peer are
 * reported. Without tsan_sees_peers these functions do nothing. */
#ifndef UROCE_CHECK_PEERS_H
#define UROCE_CHECK_PEERS_H

#include "check/objects.h"

struct qp;

struct packet;

/* Detects ThreadSanitizer. Before all other functions. */
void peers_start(void);
/* Called before this thread posts, or sends a message of connection management: peers may react to what the thread
 * has done. */
void peers_told(void);
/* Like peers_told(), and orders this thread behind all that peers have done. Called when an object is made, changed
 * or destroyed, and for news that may tell anything. */
void peers_settle(void);
/* Called before a packet is taken. */
void peers_arrive(const struct qp *qp, const struct packet *p) REQUIRES(objects_lock);
/* Called before the completion of a receive is written. */
void peers_message(const struct qp *qp) REQUIRES(objects_lock);
/* Called when this thread has polled the completion of a receive of queue pair `qpn`. */
void peers_heard(uint32_t qpn) REQUIRES(objects_lock);
/* Called when this thread has polled the completion of a request to queue pair `qpn` of this process. */
void peers_done(uint32_t qpn) REQUIRES(objects_lock);

#endif
