/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving: from links to queue pairs. One thread of a process at a time: the rx owner.
 *
 * The path of an incoming packet: the thread that has rx ownership (it holds `receive`: an application thread that
 * polls, one that waits for an event, or the helper) reads it from a link, finds the QP and calls the engine. After the
 * last packet of that QP it runs the engine and sends what the engine made (run.c). */
#ifndef UROCE_PORT_RECEIVE_H
#define UROCE_PORT_RECEIVE_H

#include "loop/loop.h"

/* receive.c */
/* Receives all that local peers have sent, and about one train from each link; returns the number of packets.
 * `now`: about the time; set to the time when a link has brought something. */
uint32_t receive_all(struct loop *l, uint64_t *now, struct cq_poller *poller) REQUIRES(l->receive);
/* The same for a thread that was woken: from a port until nothing is left, as an edge-triggered epoll tells of it once;
 * rarely, if local peers have sent something. */
uint32_t receive_now(struct loop *l, uint64_t *now) REQUIRES(l->receive);
/* Receives packets that other processes hand over. False: none. */
bool receive_handover(struct loop *l, uint64_t now) REQUIRES(l->receive);
/* Hands over to their owners the packets that a port still has. */
void drain_port(void *port);
/* At exit(): hands over what has come to the ports' sockets and is for other processes. Takes nothing that is for this
 * one, and no lock but l->receive, for which it does not wait. */
void loop_pass_on(struct loop *l);

void drain_rx_ring(struct loop *l, struct local_peer *n) REQUIRES(l->receive);

/* Receives what local peers have sent, to the poller's CQ if it can take it. Returns the number of packets. */
uint32_t receive_rx_rings(struct loop *l, struct cq_poller *poller) REQUIRES(l->receive);
/* Receives all that has come until now, for any QP. Waits for a thread that has rx ownership. The caller holds only
 * locks that come before rx ownership in ARCHITECTURE.md. */
void loop_catch_up(void);

#endif
