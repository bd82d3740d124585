/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving: from links to QPs, by one thread of the process at a time, the rx owner. */
#include "port/receive.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hooks.h"
#include "base/trace.h"
#include "engine/engine.h"
#include "engine/owed.h"
#include "host/handover.h"
#include "host/steering.h"
#include "link/record.h"
#include "link/ring.h"
#include "loop/loop.h"
#include "loop/waiting.h"
#include "object/capture.h"
#include "object/checker.h"
#include "port/down.h"
#include "port/faults.h"
#include "port/gsi.h"
#include "port/local_link.h"
#include "port/local_peer.h"
#include "port/nearby.h"
#include "port/run.h"
#include "port/target.h"
#include "port/transmit.h"
#include "port/tuned.h"

/* One reception, and the token of it: a thread has one while it holds loop->receive, and until rx_leave() qp->lock.
 * Consecutive packets of one QP find it locked. Links and handover pass the token on to the callbacks here. */
struct rx {
	struct loop *loop;
	struct port *port;	  /* source of the packets: a socket. NULL: a ring, or another process */
	struct local_peer *peer;  /* source of the packets: a ring. NULL: none */
	struct qp *qp;		  /* the last packet's QP, locked. NULL: none */
	bool fast;		  /* the fast path took all packets for that QP */
	bool owes;		  /* some of these packets are to be acknowledged */
	uint64_t now;		  /* ns: the exact time; 0: not read yet */
	uint64_t about;		  /* ns: clock_about(); 0: not read yet */
	struct cq_poller *poller; /* of the polling thread; NULL: the thread does not poll */
};

/* Tells the analysis that with this token the lock is held. */
static inline void rx_owns(const struct rx *rx) ASSERTS(rx->loop->receive)
{
	lock_by_token(&rx->loop->receive);
}

/* The same, after rx_enter() has returned true. */
static inline void rx_has_qp(const struct rx *rx) ASSERTS(rx->qp->lock)
{
	lock_by_token(&rx->qp->lock);
}

/* run_qp() for a QP whose packets were all taken by the fast path: no deadline has become earlier. By UDP an ACK that
 * is due alone may wait: a polling thread may be about to post an answer, with which it leaves as a train. */
static inline void run_fast(struct loop *l, struct qp *qp, uint64_t now) REQUIRES(qp->lock)
{
	bool is_due = qp->resp.ack >= ACK_ASKED;

	if (unlikely(!engine_owes_ack_alone(qp)) || (is_due && qp->req.lossless))
		run_qp(l, qp, now ?: clock_about(), true);
	else if (is_due)
		make_ready(l, qp);
}

/* Runs and unlocks the QP. A datagram leaves nothing to send. */
static __attribute__((noinline)) void rx_leave_qp(struct rx *rx) REQUIRES(rx->loop->receive)
{
	rx_has_qp(rx);
	if (likely(rx->fast)) {
		if (rx->owes && rx->qp->transport != TRANSPORT_UD)
			run_fast(rx->loop, rx->qp, rx->now);
	} else if (unlikely(is_delegate(rx->qp))) {
		target_run(rx->loop, rx->qp, rx->now);
	} else {
		run_qp(rx->loop, rx->qp, rx->now, true);
	}
	lock_drop(&rx->qp->lock);
	rx->qp = NULL;
}

static inline void rx_leave(struct rx *rx) REQUIRES(rx->loop->receive)
{
	if (rx->qp)
		rx_leave_qp(rx);
}

/* Locks the QP until rx_leave(); rx_has_qp() tells the analysis. False: no QP has that number. */
static inline __attribute__((always_inline)) bool rx_enter(struct rx *rx, uint32_t qpn) REQUIRES(rx->loop->receive)
{
	if (rx->qp && rx->qp->base.qp_num == qpn)
		return true;
	rx_leave(rx);
	rx->qp = hca_find_qp(&rx->loop->hca, qpn);
	rx->fast = true;
	rx->owes = false;
	return rx->qp;
}

/* True if the packet came from or to an address whose port is down. From a local peer, the two addresses of a datagram
 * are equal. */
static bool came_by_down(const struct rx *rx, const struct packet *p, const union ibv_gid *from)
{
	union ibv_gid to;

	if (!hook_is_on(HOOK_PORT_DOWN))
		return false;
	if (rx->qp && rx->qp->transport != TRANSPORT_UD)
		return rx->qp->path.severed;
	if (!rx->peer)
		memcpy(&to, p->to, sizeof(to));
	return address_is_down(from) || (!rx->peer && address_is_down(&to));
}

static void receive_waiting(struct loop *l) REQUIRES(l->receive);

/* Shows an arrived packet to the trace and a capture. `here`: the destination address, which a ring tells for datagrams
 * only. rx->qp is NULL for all packets to QP 1. */
static __attribute__((cold, noinline)) void note_arrived(const struct rx *rx, const struct packet *p,
							 const union ibv_gid *from, const union ibv_gid *here)
{
	bool is_datagram = !rx->qp || rx->qp->transport == TRANSPORT_UD;
	struct packet whole = *p;

	trace_record(TRACE_receive, p->dest_qpn, p->psn.v, p->opcode, p->length, 0, rx->peer ? BY_RING : BY_UDP);
	if (!hook_is_on(HOOK_CAPTURE))
		return;
	if (rx->peer && p->brief) /* only packets from a ring are brief */
		record_get_rest(&whole);
	capture_packet(&whole, &(struct capture_seen){
				       .from = from,
				       .to = !rx->peer || is_datagram ? (const union ibv_gid *)p->to : here,
				       .traffic_class = rx->peer ? 0 : p->traffic_class,
				       .qpn = p->dest_qpn,
				       .link = rx->peer ? CAPTURE_RING : CAPTURE_UDP,
				       .inbound = true,
				       .iov = &(struct iovec){(void *)p->payload, packet_carries(p)},
				       .iovs = 1,
				       .owner = rx->peer ? rx->peer->pid : 0,
			       });
}

/* Delivers a packet to QP 1, which all processes of the address share. The rings come first: a DREQ must not overtake
 * what its connection sent by them. */
static void deliver_mad(struct rx *rx, const struct packet *p, const union ibv_gid *from) REQUIRES(rx->loop->receive)
{
	uint16_t slot;

	if (hooks_any())
		note_arrived(rx, p, from, from);
	rx_leave(rx);
	receive_waiting(rx->loop);
	if (hooks_any() && came_by_down(rx, p, from))
		return;
	slot = gsi_receive(rx->loop, p, from, !rx->port);
	if (slot)
		handover_add(&rx->loop->handover, slot, p, from);
}

/* Hands over another process's packet. A packet that was handed over before is dropped: its process may be gone. */
static void stray(struct rx *rx, uint16_t slot, const struct packet *p, const union ibv_gid *from)
	REQUIRES(rx->loop->receive)
{
	struct loop *l = rx->loop;

	if (p->dest_qpn == GSI_QPN)
		deliver_mad(rx, p, from);
	if (slot == 0 || !rx->port)
		return;
	handover_add(&l->handover, slot, p, from);
	steering_stray(&rx->port->steered, slot, rx->now);
}

static struct port *port_of(struct loop *l, const uint8_t *gid) REQUIRES(l->receive)
{
	for (uint32_t i = 0; i < l->ports; i++)
		if (!memcmp(&l->port[i]->link->gid, gid, sizeof(union ibv_gid)))
			return l->port[i];
	return NULL;
}

/* Grants credit by the link of the request: the ring, or if the ring is full, the network. A UD QP has no path, so the
 * grant leaves from the address that the request came to. */
static void grant_credit(struct rx *rx, const struct packet *request, const union ibv_gid *from)
	REQUIRES(rx->loop->receive, rx->qp->lock)
{
	const uint8_t *here = rx->qp->transport == TRANSPORT_UD ? request->to : rx->qp->path.sgid.raw;
	struct port *port;
	struct packet p;
	struct link_tx tx = {.packet = &p, .dgid = from};

	if (!engine_grant_credit(rx->qp, request, from, rx->now, &p) ||
	    (rx->peer && nearby_answer(rx->peer, &p, here, from)))
		return;
	port = rx->port ?: port_of(rx->loop, here);
	if (port)
		transmit(port->link, &tx, 1);
}

/* True if the exact time of arrival matters: for a credit grant, which starts the next request, and for an RNR NAK,
 * whose delay begins now. */
static bool is_timed(const struct qp *qp, const struct packet *p)
{
	if (p->opcode == OPCODE_CREDIT_GRANT)
		return true;
	return qp->transport != TRANSPORT_UD &&
	       (!qp->req.lossless || !(opcode_info[p->opcode].flags & IS_REQUEST || p->syndrome < SYNDROME_RNR));
}

/* Time of arrival of a local peer's packet. Rough for most packets, as it serves time-outs of packets that are not
 * lost. */
static uint64_t time_of(struct rx *rx, const struct packet *p) REQUIRES(rx->qp->lock)
{
	if (unlikely(is_timed(rx->qp, p)))
		return clock_now();
	if (!rx->about)
		rx->about = clock_about();
	return rx->about;
}

/* Fills in the rest of a brief packet. */
static void complete_packet(struct packet *p)
{
	if (p->brief)
		record_get_rest(p);
}

/* The QP is to be run, as the fast path has declined. */
static void rx_declined(struct rx *rx)
{
	rx->now = rx->now ?: clock_now();
	rx->fast = false;
}

/* Gives a packet to the engine. The fast path of a ring needs no time: reading the clock would cost more than all the
 * rest. */
static inline __attribute__((always_inline)) void deliver_packet(struct rx *rx, struct packet *p,
								 const union ibv_gid *from)
	REQUIRES(rx->loop->receive, rx->qp->lock)
{
	struct qp *qp = rx->qp; /* functions that need the lock get rx->qp, as the analysis takes these for two */

	if (likely(p->delivered)) {
		if (unlikely(!engine_receive_delivered(rx->qp, p, rx->poller)))
			rx_declined(rx);
		return;
	}
	if (likely(rx->peer) && likely(engine_receive_fast(rx->qp, p, from, rx->poller))) {
		rx->owes = true;
		return;
	}
	if (rx->peer) {
		complete_packet(p);
		rx->now = time_of(rx, p);
		if (unlikely(qp->path.local_peer == rx->peer && (!qp->req.lossless || (p->pieces && !qp->reach))))
			local_meet(rx->qp);
	}
	if (unlikely(p->opcode == OPCODE_CREDIT_REQUEST))
		grant_credit(rx, p, from);
	else if (unlikely(TRANSPORT(p->opcode) == TRANSPORT_XRC) && !rx->peer && !is_delegate(qp) &&
		 target_route(rx->loop, rx->qp, p, from))
		; /* passed on to another process */
	else if (likely(engine_receive(rx->qp, p, from, rx->now, rx->poller))) {
		rx->owes = true;
		return;
	}
	rx->fast = false;
}

/* Tells `uroce check` before the bytes are stored. */
static void check_arrived(const struct rx *rx, const struct packet *p) REQUIRES(rx->qp->lock)
{
	struct packet whole = *p;

	if (rx->peer && p->brief)
		record_get_rest(&whole);
	checker->arrives(rx->qp, &whole);
}

/* engine_heed_path(), with the packet complete. */
static bool heed_path(struct rx *rx, struct packet *p, const union ibv_gid *from) REQUIRES(rx->qp->lock)
{
	if (rx->peer)
		complete_packet(p);
	rx->now = rx->now ?: clock_now();
	return engine_heed_path(rx->qp, p, from, rx->peer ? NULL : p->to, rx->now);
}

/* Calls the hooks on an arriving packet. False: the packet is done. */
static __attribute__((cold, noinline)) bool deliver_note(struct rx *rx, struct packet *p, const union ibv_gid *from)
	REQUIRES(rx->loop->receive, rx->qp->lock)
{
	struct fault_arrival a = {.packet = p, .from = from, .by_port = !rx->peer};

	note_arrived(rx, p, from, &rx->qp->path.sgid);
	if (came_by_down(rx, p, from))
		return false;
	if (hook_is_on(HOOK_MIGRATION) && !heed_path(rx, p, from))
		return false;
	if (checker_listens())
		check_arrived(rx, p);
	if (!hook_is_on(HOOK_FAULT))
		return true;
	if (rx->peer)
		complete_packet(p);
	rx->now = rx->now ?: clock_now();
	if (faults_arrive(rx->loop, rx->qp, &a, rx->now))
		for (uint32_t i = 0; i < a.times; i++)
			deliver_packet(rx, a.packet, from);
	faults_arrived(rx->qp, rx->now);
	free(a.copy);
	rx->fast = false;
	return false;
}

/* Delivers a packet to rx->qp, which is locked. The one way in: every packet for a QP passes here, by any link. */
static inline __attribute__((always_inline)) void deliver(struct rx *rx, struct packet *p, const union ibv_gid *from)
	REQUIRES(rx->loop->receive, rx->qp->lock)
{
	/* what is done for its sender is not lost, though a port has gone down since, or a rule has come */
	if (!hooks_any() || p->delivered || deliver_note(rx, p, from))
		deliver_packet(rx, p, from);
}

/* True if the packet came to an address of its QP. A connected QP takes packets from its peer's address to its own
 * (IBTA 9.6.1); a UD QP, at any address of its device. The engine compares the source. */
static inline bool is_at_own_address(const struct rx *rx, const struct packet *p) REQUIRES(rx->qp->lock)
{
	const struct qp *qp = rx->qp;

	if (likely(rx->port == qp->path.port)) /* an address has one port */
		return true;
	return qp->transport == TRANSPORT_UD || !memcmp(p->to, &qp->path.sgid, sizeof(qp->path.sgid)) ||
	       (hook_is_on(HOOK_MIGRATION) && !memcmp(p->to, &qp->alternate.sgid, sizeof(qp->alternate.sgid)));
}

/* True if a packet from the ring is of the QP's peer. Packets of a ring have no addresses: the paths of the two QPs are
 * compared, until this QP uses the ring too. */
static inline bool is_of_peer(const struct rx *rx) REQUIRES(rx->qp->lock)
{
	return likely(rx->qp->path.local_peer == rx->peer) &&
	       (likely(rx->qp->req.lossless) || !local_is_astray(rx->qp));
}

/* Not inline, to keep the common path short. */
static __attribute__((noinline, cold)) void deliver_stray(struct rx *rx, const struct packet *p,
							  const union ibv_gid *from) REQUIRES(rx->loop->receive)
{
	stray(rx, hca_owner(&rx->loop->hca, p->dest_qpn), p, from);
}

static bool deliver_port(void *arg, struct packet *p, const union ibv_gid *from)
{
	struct rx *rx = arg;

	rx_owns(rx);
	if (!rx->now)
		rx->now = clock_now();
	if (unlikely(!hca_has_number(&rx->loop->hca, p->dest_qpn))) {
		deliver_stray(rx, p, from);
	} else if (likely(rx_enter(rx, p->dest_qpn))) {
		rx_has_qp(rx);
		if (is_at_own_address(rx, p))
			deliver(rx, p, from);
	}
	return true;
}

/* Delivers a packet that the owner of an XRC target passed to this process, which has the SRQ. target_delegate() locks
 * rx->qp. */
static void deliver_passed(void *arg, const struct handover_pass *h, struct packet *p, const union ibv_gid *from)
{
	struct rx *rx = arg;

	rx_owns(rx);
	if (TRANSPORT(p->opcode) != TRANSPORT_XRC)
		return;
	rx_leave(rx);
	rx->fast = false;
	rx->qp = target_delegate(rx->loop, h);
	if (!rx->qp)
		return;
	rx_has_qp(rx);
	deliver(rx, p, from);
}

/* Handles a delegate's report. */
static void deliver_report(void *arg, const struct handover_report *r)
{
	struct rx *rx = arg;

	rx_owns(rx);
	rx_leave(rx);
	target_heard(rx->loop, r, rx->now);
}

/* Handles an owner's request for a report. */
static void deliver_ask(void *arg, const struct handover_ask *a)
{
	struct rx *rx = arg;

	rx_owns(rx);
	rx_leave(rx);
	target_asked(rx->loop, a);
}

/* True for a datagram that the QP itself sent and does not want back. A QP of another host may have the same number, so
 * the address is compared too. */
static bool is_echo(struct rx *rx, const struct packet *p, const union ibv_gid *from) REQUIRES(rx->loop->receive)
{
	return rx->qp->loop.no_multicast_loop && p->src_qpn == rx->qp->base.qp_num && port_of(rx->loop, from->raw);
}

/* Delivers a packet of a multicast group: each QP in the group gets it. */
static bool deliver_group(void *arg, struct packet *p, const union ibv_gid *from)
{
	struct rx *rx = arg;

	rx_owns(rx);
	if (TRANSPORT(p->opcode) != TRANSPORT_UD || p->dest_qpn != QPN_MASK)
		return true;
	if (!rx->now)
		rx->now = clock_now();
	for (uint32_t i = 0; i < rx->port->members; i++) {
		if (rx_enter(rx, rx->port->member[i]) && likely(!is_echo(rx, p, from))) {
			rx_has_qp(rx);
			deliver(rx, p, from);
		}
	}
	return true;
}

/* Sends the packets that are handed over. If that finds a process dead, its last reports are read before anything is
 * decided: a delegate reports before it acknowledges, but by another socket (target.h). */
static __attribute__((noinline)) void flush_handover(struct loop *l, uint64_t now) REQUIRES(l->receive)
{
	uint32_t left = CATCH_UP;

	handover_send(&l->handover);
	if (!l->handover.dead)
		return;
	while (left && receive_handover(l, now))
		left--;
	if (left)
		l->handover.heard_out = l->handover.dead;
}

static uint32_t receive_port(struct loop *l, struct port *port, uint64_t *now, struct cq_poller *poller)
	REQUIRES(l->receive)
{
	struct rx rx = {.loop = l, .port = port, .now = *now, .poller = poller};
	link_deliver *to = port->netif ? deliver_group : deliver_port;
	uint32_t n = port->link->ops->receive(port->link, POLL_BATCH, to, &rx);

	rx_owns(&rx);
	rx_leave(&rx);
	*now = rx.now;
	if (unlikely(l->handover.bytes))
		flush_handover(l, rx.now);
	if (!n)
		port->steered.settled = true;
	else if (unlikely(l->waiting.fd))
		l->waiting.fd->rung = true; /* the descriptor no longer shows what has been received */
	return n;
}

/* True if the poll has all completions that it asked for: it returns now, and the thread may be about to answer. */
static bool is_served(const struct cq_poller *poller)
{
	return poller && poller->got && poller->got == poller->max;
}

/* Delivers a MAD from a ring. The ring keeps the order: the MAD comes after all that its sender has sent. */
static void deliver_near_mad(struct rx *rx, struct packet *p, const union ibv_gid *from) REQUIRES(rx->loop->receive)
{
	complete_packet(p);
	if (hooks_any())
		note_arrived(rx, p, from, from);
	rx_leave(rx);
	if (hooks_any() && came_by_down(rx, p, from))
		return;
	gsi_receive(rx->loop, p, from, true);
}

/* Delivers a packet from a local peer's ring. Only QPs connected to that peer take its packets; a datagram has its
 * source address. */
static bool deliver_near(void *arg, struct packet *p, const union ibv_gid *from)
{
	struct rx *rx = arg;

	rx_owns(rx);
	if (likely(rx_enter(rx, p->dest_qpn))) {
		rx_has_qp(rx);
		if (from || is_of_peer(rx))
			deliver(rx, p, from ?: &rx->qp->path.dgid);
	} else if (p->dest_qpn == GSI_QPN && from) {
		deliver_near_mad(rx, p, from);
	}
	return !is_served(rx->poller);
}

/* Receives up to `batch` packets, the first from this record; returns their number. */
static __attribute__((noinline)) uint32_t receive_records(struct rx *rx, struct local_peer *peer, const void *record,
							  uint32_t bytes, uint32_t batch)
{
	rx->peer = peer;
	return local_peer_receive(peer, record, bytes, batch, deliver_near, rx);
}

static inline uint32_t receive_rx_ring(struct rx *rx, struct local_peer *peer, uint32_t batch)
{
	uint32_t bytes;
	const void *record = ring_peek(&peer->rx_ring, &bytes);

	return record ? receive_records(rx, peer, record, bytes, batch) : 0;
}

uint32_t receive_rx_rings_from(struct loop *l, struct cq_poller *poller, uint32_t first)
{
	struct rx rx = {.loop = l, .poller = poller};
	uint32_t n = receive_rx_ring(&rx, l->local.rx_ring[first], RX_RING_BATCH);

	/* rings left out have their turn at the next full poll: poll_rings() */
	for (uint32_t i = first + 1; i < l->local.rx_rings && !is_served(poller); i++)
		n += receive_rx_ring(&rx, l->local.rx_ring[i], RX_RING_BATCH);
	rx_owns(&rx);
	rx_leave(&rx);
	return n;
}

/* Receives what local peers have sent before now, and at most one ring of what they send meanwhile. */
static void receive_waiting(struct loop *l)
{
	struct rx rx = {.loop = l};

	for (uint32_t i = 0; i < l->local.rx_rings; i++)
		receive_rx_ring(&rx, l->local.rx_ring[i], RX_RING_ALL);
	rx_owns(&rx);
	rx_leave(&rx);
}

void loop_catch_up(void)
{
	/* acquire pairs with the release in loop_get() */
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_acquire);
	uint64_t now = 0;

	if (!l || loop_is_inert(l))
		return;
	lock_take(&l->receive);
	receive_waiting(l);
	for (uint32_t i = 0; i < l->ports; i++) {
		uint32_t n = 0;

		do
			l->port[i]->link->look = true;
		while (receive_port(l, l->port[i], &now, NULL) && ++n < CATCH_UP);
	}
	lock_drop(&l->receive);
}

void drain_rx_ring(struct loop *l, struct local_peer *peer)
{
	struct rx rx = {.loop = l};

	while (receive_rx_ring(&rx, peer, RX_RING_BATCH))
		;
	rx_owns(&rx);
	rx_leave(&rx);
}

/* True if a port is due to be read, in a process that has local peers. `at_work`: they have sent something since the
 * last time. `others`: quiet ports that this poll has read; one for each poll is enough, unless polls are rare. */
static bool is_due(struct port *port, uint64_t now, bool at_work, uint32_t others)
{
	const struct loop *l = port->loop;
	bool silent = now > port->heard + SILENT;
	uint64_t pause = at_work && silent ? SELDOM_AGAIN : QUIET_AGAIN;

	if (silent && l->apart > QUIET_AGAIN)
		pause = max_of(pause, RARE_POLLS * l->apart);
	if (others)
		pause *= 2;
	if (port->busy)
		port->busy--;
	else if (now < port->looked + pause && now >= port->looked)
		return false;
	port->looked = now;
	return true;
}

uint32_t receive_all(struct loop *l, uint64_t *now, struct cq_poller *poller)
{
	bool near = l->local.rx_rings, at_work, busy = false;
	uint32_t n = near ? receive_rx_rings(l, NULL) : 0, quiet = 0;
	uint64_t before = *now, apart, seen = 0; /* `seen`: the time is read when something has come */

	apart = before > l->looked ? before - l->looked : 0; /* another thread may have come before with a later time */
	l->apart = max_of(min_of(apart, LOOK_LEAST / RARE_POLLS), l->apart - l->apart / 8);
	at_work = n || l->rx_rings_busy;
	l->rx_rings_busy = false;
	for (uint32_t i = 0; i < l->ports; i++) {
		struct port *port = l->port[i];
		bool was_quiet = !port->busy;
		uint32_t got;

		if (near && !is_due(port, before, at_work, quiet))
			continue;
		got = receive_port(l, port, &seen, poller);
		if (got) {
			port->busy = BUSY_POLLS;
			port->heard = seen;
		}
		quiet += was_quiet;
		n += got;
	}
	for (uint32_t i = 0; i < l->ports; i++)
		busy |= l->port[i]->busy;
	l->ports_busy = busy;
	l->looked = before;
	if (seen)
		*now = seen;
	return n;
}

uint32_t receive_now(struct loop *l, uint64_t *now)
{
	uint32_t near = receive_rx_rings(l, NULL), n = near;

	for (uint32_t i = 0; i < l->ports; i++)
		if (!near || is_due(l->port[i], *now, true, 0))
			for (uint32_t trains = 0, got = 1; got && trains < CATCH_UP; trains++)
				n += got = receive_port(l, l->port[i], now, NULL);
	return n;
}

bool receive_handover(struct loop *l, uint64_t now)
{
	struct rx rx = {.loop = l, .now = now};
	static const struct handover_ops ops = {deliver_port, deliver_passed, deliver_report, deliver_ask};
	bool any = handover_receive(&l->slot, &ops, &rx);

	rx_owns(&rx);
	rx_leave(&rx);
	if (unlikely(l->handover.bytes))
		handover_send(&l->handover);
	return any;
}

/* For drain_port(), whose caller holds l->receive. */
static bool drain_deliver(void *arg, struct packet *p, const union ibv_gid *from)
{
	struct loop *l = arg;
	uint16_t slot;

	lock_by_token(&l->receive);
	slot = p->dest_qpn == GSI_QPN ? gsi_receive(l, p, from, false) : hca_owner(&l->hca, p->dest_qpn);
	if (slot && slot != l->slot.number)
		handover_add(&l->handover, slot, p, from);
	return true;
}

void drain_port(void *arg)
{
	struct port *port = arg;
	struct loop *l = port->loop;

	port->link->look = true;
	port->link->ops->receive(port->link, DRAIN_BATCH, drain_deliver, l);
	handover_send(&l->handover);
}

/* Hands over packets of other processes, but no MADs: their senders repeat them, and answering takes locks that exit()
 * may have interrupted. Called through link_ops, with l->receive held. */
static bool pass_on(void *arg, struct packet *p, const union ibv_gid *from)
{
	struct loop *l = arg;
	uint16_t slot = p->dest_qpn == GSI_QPN ? 0 : hca_owner(&l->hca, p->dest_qpn);

	if (slot && slot != l->slot.number)
		handover_add(&l->handover, slot, p, from);
	return true;
}

void loop_pass_on(struct loop *l)
{
	if (!lock_try(&l->receive))
		return;
	for (uint32_t i = 0; i < l->ports; i++)
		if (!l->port[i]->netif && l->port[i]->link->fd >= 0)
			l->port[i]->link->ops->receive(l->port[i]->link, DRAIN_BATCH, pass_on, l);
	handover_send(&l->handover);
	lock_drop(&l->receive);
}
