/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving: from links to queue pairs, by one thread of a process at a time, the rx owner.
 *
 * The path of an incoming packet: the thread that has rx ownership (it holds `receive`: an application thread that
 * polls, one that waits for an event, or the helper) reads it from a link, finds the QP and calls the engine. After the
 * last packet of that QP it runs the engine and sends what the engine made (run.c). */
#ifndef UROCE_PORT_RECEIVE_H
#define UROCE_PORT_RECEIVE_H

#include "loop/loop.h"
#include "port/local_peer.h"
#include "port/tuned.h"

/* Receives all that local peers have sent, and about one train from each link; returns the number of packets. `now`:
 * ns, about the time; set to the time of arrival if a link has brought something. */
uint32_t receive_all(struct loop *l, uint64_t *now, struct cq_poller *poller) REQUIRES(l->receive);
/* receive_all() for a thread that was woken: reads each port until it is empty, as an edge-triggered epoll reports it
 * once. Reads ports rarely if local peers have sent something. */
uint32_t receive_now(struct loop *l, uint64_t *now) REQUIRES(l->receive);
/* Receives packets that other processes hand over. False: there were none. */
bool receive_handover(struct loop *l, uint64_t now) REQUIRES(l->receive);
/* Hands over to their owners the packets left in a port that closes. With l->receive. */
void drain_port(void *port);
/* Hands over, at exit(), the packets for other processes that have come to the ports' sockets. Takes no packet of this
 * process, and no lock but l->receive, for which it does not wait. */
void loop_pass_on(struct loop *l);

/* Receives all that a local peer has sent, before its ring goes. */
void drain_rx_ring(struct loop *l, struct local_peer *peer) REQUIRES(l->receive);

/* Receives from the rx rings of local peers, from ring `first` on, which has a record. Returns the number of packets.
 */
uint32_t receive_rx_rings_from(struct loop *l, struct cq_poller *poller, uint32_t first) REQUIRES(l->receive);

/* Receives what local peers have sent, to the poller's CQ if that can take it. Returns the number of packets. Inline,
 * as threads mostly poll in vain. */
static inline uint32_t receive_rx_rings(struct loop *l, struct cq_poller *poller) REQUIRES(l->receive)
{
	for (uint32_t i = 0; i < l->local.rx_rings; i++) {
		const struct rx_look *look = &l->local.rx_look[i];

		/* relaxed: ring_peek() looks again */
		if (atomic_load_explicit(look->mark, memory_order_relaxed) == look->due)
			return receive_rx_rings_from(l, poller, i);
		if (l->local.rx_rings < RX_RINGS_FEW) /* its other line comes with the mark then, not after it */
			__builtin_prefetch((const char *)look->mark + CACHE_LINE);
	}
	return 0;
}
/* Receives all that has come until now, for any QP. Waits for the rx owner. The caller holds only locks that come
 * before rx ownership in ARCHITECTURE.md. */
void loop_catch_up(void);

#endif
