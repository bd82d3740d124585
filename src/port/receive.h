/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving: from links to queue pairs. One thread of a process at a time: the rx owner.
 *
 * The path of an incoming packet: the thread that has rx ownership (it holds `receive`: an application thread that
 * polls, one that waits for an event, or the helper) reads it from a link, finds the QP and calls the engine. After the
 * last packet of that QP it runs the engine and sends what the engine made (run.c). */
#ifndef UROCE_PORT_RECEIVE_H
#define UROCE_PORT_RECEIVE_H

#include "loop/loop.h"
#include "port/local_peer.h"

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

/* Receives from the rx rings of local peers, beginning with this record of that ring. */
uint32_t receive_rx_rings_from(struct loop *l, struct cq_poller *poller, uint32_t first, const void *record,
			       uint32_t bytes) REQUIRES(l->receive);

/* Receives what local peers have sent, to the poller's CQ if it can take it. Returns the number of packets. Inline, as
 * polls that find nothing are what a thread does most. */
static inline uint32_t receive_rx_rings(struct loop *l, struct cq_poller *poller) REQUIRES(l->receive)
{
	for (uint32_t i = 0; i < l->local.rx_rings; i++) {
		uint32_t bytes;
		const void *record = local_peer_peek(l->local.rx_ring[i], &bytes);

		if (record)
			return receive_rx_rings_from(l, poller, i, record, bytes);
	}
	return 0;
}
/* Receives all that has come until now, for any QP. Waits for a thread that has rx ownership. The caller holds only
 * locks that come before rx ownership in ARCHITECTURE.md. */
void loop_catch_up(void);

#endif
