/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer's WRITEs, READs and atomics, as ThreadSanitizer of the program sees them: each queue pair has
 * fibers, which are threads to it, and do what the peer does. So it reports the program's own loads and stores that
 * race with them. Without tsan_sees_peers these do nothing. */
#ifndef UROCE_CHECK_PEERS_H
#define UROCE_CHECK_PEERS_H

#include "check/objects.h"

struct qp;

struct packet;

/* Looks whether the program has ThreadSanitizer. Before all others. */
void peers_start(void);
/* This thread is about to post, or to send a message of connection management: peers may react to what it has done. */
void peers_told(void);
/* peers_told(); and this thread, which makes, changes or destroys an object, or has heard of what may tell anything, is
 * taken to know what peers have done. */
void peers_settle(void);
/* A packet is about to be taken. */
void peers_arrive(const struct qp *qp, const struct packet *p) REQUIRES(objects_lock);
/* The completion of a receive is about to be written. */
void peers_message(const struct qp *qp) REQUIRES(objects_lock);
/* This thread has polled the completion of a receive of that queue pair. */
void peers_heard(uint32_t qpn) REQUIRES(objects_lock);
/* This thread has polled the completion of a request to that queue pair, which is of this process. */
void peers_done(uint32_t qpn) REQUIRES(objects_lock);

#endif
