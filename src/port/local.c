/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/local.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/config.h"
#include "base/high_fd.h"
#include "base/log.h"
#include "base/msan.h"
#include "base/rights.h"
#include "host/callers.h"
#include "host/introduction.h"
#include "host/slot.h"
#include "link/netif.h"
#include "link/ring.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "loop/waiting.h"
#include "memory/reach.h"
#include "port/local_peer.h"
#include "port/tuned.h"

static void forget_flows(struct qp *qp, const struct local_peer *peer) REQUIRES(qp->lock)
{
	for (uint32_t i = 0; qp->flow && qp->transport == TRANSPORT_UD && i < UD_FLOWS; i++) {
		if (qp->flow[i].near == peer)
			qp->flow[i].near = NULL;
		if (qp->flow[i].next == peer)
			qp->flow[i].next = NULL;
	}
}

void nearby_forget(struct loop *l, const struct local_peer *peer)
{
	lock_take(&l->local.mads_lock);
	lock_drop(&l->local.mads_lock);
	for (uint32_t i = 0; i < HCA_MAX_QP; i++) {
		struct qp *qp = pool_at_random(&l->hca.qps, i);

		if (!qp)
			continue;
		lock_take(&qp->lock);
		if (qp->alive)
			forget_flows(qp, peer);
		lock_drop(&qp->lock);
	}
}

/* Without them: MemorySanitizer and ThreadSanitizer of the program do not see bytes that a local peer stores. */
bool local_is_wanted(void)
{
	return config_bool(CONFIG_LOCAL) && !msan_is_there() && !tsan_sees_peers;
}

void local_init(struct loop *l)
{
	struct local *local = &l->local;

	local->listener = local_is_wanted() ? introduction_listen(l->slot.number) : -1;
	local->doorbell = -1;
	lock_set_rank(&local->lock, RANK_LOCAL);
	lock_set_rank(&local->mads_lock, RANK_MADS);
	list_init(&local->callers);
	list_init(&local->gone);
}

/* Changes under `receive`: sleeping threads read it there. */
static void set_doorbell(struct loop *l, int doorbell)
{
	lock_take(&l->receive);
	fd_close(&l->local.doorbell);
	l->local.doorbell = doorbell;
	waiting_add(l, doorbell);
	lock_drop(&l->receive);
}

void local_open(struct loop *l)
{
	struct local *local = &l->local;

	lock_take(&local->lock);
	if (!local->on && local_is_wanted()) {
		if (local->listener < 0) /* the slot's last process was still exiting */
			local->listener = introduction_listen(l->slot.number);
		set_doorbell(l, high_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
		local->on =
			local->doorbell >= 0 && local->listener >= 0 && !helper_watch_local(l, local->listener, true);
		if (!local->on) {
			set_doorbell(l, -1);
			fd_close(&local->listener); /* else a caller would wait there */
		}
	}
	lock_drop(&local->lock);
	lock_take(&l->receive);
	sleep_renew(l);
	lock_drop(&l->receive);
}

/* ---- local peers come and go ---- */

static void forget_caller(struct caller *c)
{
	list_remove(&c->link);
	free(c);
}

static void free_if_unused(struct local_peer *peer)
{
	if (peer->users || local_peer_state(peer) != LOCAL_PEER_GONE)
		return;
	list_remove(&peer->gone);
	local_peer_free(peer);
}

/* Receives what the local peer sent before it ended, then unmaps the ring. */
static void close_rx_ring(struct loop *l, struct local_peer *peer) EXCLUDES(l->receive)
{
	struct local *local = &l->local;

	lock_take(&l->receive);
	if (peer->rx_ring.words)
		l->local.drain(l, peer);
	for (uint32_t i = 0; i < local->rx_rings; i++)
		if (local->rx_ring[i] == peer) {
			local->rx_ring[i] = local->rx_ring[--local->rx_rings];
			local->rx_ring[i]->look = &local->rx_look[i];
			local_peer_look_on(local->rx_ring[i]);
			break;
		}
	ring_unmap(&peer->rx_ring);
	lock_drop(&l->receive);
}

/* True if the local peer has been called and has not called back yet. */
static bool is_expected(const struct local_peer *peer)
{
	return peer->out >= 0 && local_peer_state(peer) == LOCAL_PEER_MEETING;
}

/* A hint, written under local.lock. */
static void count_expected(struct local *local, int more)
{
	uint32_t before = atomic_load_explicit(&local->expected, memory_order_relaxed);

	atomic_store_explicit(&local->expected, before + more, memory_order_relaxed);
}

static void lose(struct loop *l, struct local_peer *peer) REQUIRES(l->local.lock)
{
	struct local *local = &l->local;

	count_expected(local, -is_expected(peer));
	if (local->by_slot[peer->slot] == peer)
		local->by_slot[peer->slot] = NULL;
	close_rx_ring(l, peer);
	if (atomic_load_explicit(&local->near[peer->slot], memory_order_relaxed) ==
	    peer) /* written under local.lock only */
		atomic_store_explicit(&local->near[peer->slot], NULL,
				      memory_order_relaxed); /* relaxed: ordered by the QPs' locks */
	local_peer_lose(peer);
	nearby_forget(l, peer);
	list_append(&local->gone, &peer->gone);
	free_if_unused(peer);
	helper_kick(l); /* QPs that waited for room in the ring must run */
}

static void meet(struct local_peer *peer)
{
	count_expected(&peer->loop->local, -1);
	log_debug("local link: met the process %d of slot %u", (int)peer->pid, peer->slot);
	/* release pairs with local_peer_state() */
	atomic_store_explicit(&peer->state, LOCAL_PEER_MET, memory_order_release);
	/* release pairs with find() in nearby.c */
	atomic_store_explicit(&peer->loop->local.near[peer->slot], peer, memory_order_release);
}

/* Calls the local peer, if it was not called before. 0 or -errno. */
static int call_peer(struct loop *l, struct local_peer *peer) REQUIRES(l->local.lock)
{
	int err;

	if (peer->out >= 0)
		return 0;
	atomic_store_explicit(&l->local.called, true, memory_order_relaxed);
	err = local_peer_call(peer);
	if (err)
		return err;
	count_expected(&l->local, 1);
	return helper_watch_local(l, peer->out, false);
}

static struct local_peer *find_peer(struct loop *l, uint16_t slot) REQUIRES(l->local.lock)
{
	struct local *local = &l->local;

	if (!local->by_slot[slot])
		local->by_slot[slot] = local_peer_create(l, slot);
	return local->by_slot[slot];
}

static bool is_refused(const struct local *local, uint16_t slot)
{
	return local->refused[slot / 64] >> slot % 64 & 1;
}

/* Uses udp for everything between the two processes from now on, in both directions. If they met later after all, QPs
 * here would still use udp for the process as it was, and the QPs connected to them the ring. */
static void refuse_slot(struct loop *l, uint16_t slot) REQUIRES(l->local.lock)
{
	struct local *local = &l->local;

	local->refused[slot / 64] |= 1ull << slot % 64;
	if (local->by_slot[slot])
		lose(l, local->by_slot[slot]);
}

/* Marks the two as met as soon as this process can receive from the other's ring, so no answer goes by udp. */
static int add_rx_ring(struct loop *l, struct local_peer *peer, int fd, const struct ring *ring)
{
	struct local *local = &l->local;
	int err = 0;

	lock_take(&l->receive);
	if (local->rx_rings == ARRAY_SIZE(local->rx_ring)) {
		err = -EMFILE;
	} else {
		peer->rx_ring = *ring;
		ring_attend(&peer->rx_ring);
		peer->look = &local->rx_look[local->rx_rings];
		local->rx_ring[local->rx_rings++] = peer;
		local_peer_look_on(peer);
		peer->in = fd;
		meet(peer);
		sleep_renew(l); /* sleeping threads must set "asleep" in this ring too */
		helper_kick(l); /* the helper too, as any thread may be here */
	}
	lock_drop(&l->receive);
	return err;
}

/* Maps the tables of the local peer's memory. On failure, everything goes through the rings. */
static void open_reach(struct loop *l, struct local_peer *peer, struct introduction *in)
{
	int fd[SHARE_FDS], err;

	if (!l->hca.share || in->fd[GREETING_TABLES] < 0)
		return;
	if (peer->slot == l->slot.number) {
		err = reach_self(&peer->reach, l->hca.share);
	} else {
		for (int i = 0; i < SHARE_FDS; i++) {
			fd[i] = in->fd[GREETING_TABLES + i];
			in->fd[GREETING_TABLES + i] = -1;
		}
		err = reach_open(&peer->reach, l->hca.share, fd, peer->slot, peer->pid);
	}
	if (err)
		log_debug("local link: the memory of slot %u cannot be reached: %s", peer->slot, strerror(-err));
}

static void say_refused(int err)
{
	static _Atomic bool said; /* relaxed: one message is enough */

	if (!atomic_exchange_explicit(&said, true, memory_order_relaxed))
		log_warn("another process of this host cannot share memory with this one, and uses UDP: %s%s",
			 strerror(err),
			 err == EMFILE	 ? " (ulimit -n)"
			 : err == ENOMEM ? " (ulimit -v)"
					 : "");
}

/* Handles a greeting: calls back and adds the rx ring. The contents are trusted, as the sender is of our user. 0, or
 * -errno if the meeting is refused. */
static int take_greeting(struct loop *l, int fd, struct introduction *in) REQUIRES(l->local.lock)
{
	uint16_t slot = (uint16_t)in->greeting.slot;
	struct local_peer *peer = is_refused(&l->local, slot) ? NULL : find_peer(l, slot);
	struct ring ring;
	int err;

	if (peer && peer->in >= 0) {
		lose(l, peer); /* a new process has the slot; the end of the old one was not noticed yet */
		peer = find_peer(l, slot);
	}
	if (!peer)
		return is_refused(&l->local, slot) ? -ECONNREFUSED : -ENOMEM;
	err = rights_is_doorbell(in->fd[GREETING_DOORBELL]) ? ring_map(&ring, in->fd[GREETING_RING]) : -EBADMSG;
	if (err)
		return err;
	peer->doorbell = high_fd(in->fd[GREETING_DOORBELL]);
	in->fd[GREETING_DOORBELL] = -1;
	peer->pid = in->pid;
	peer->shares = in->greeting.flags;
	open_reach(l, peer, in);
	err = call_peer(l, peer) ?: add_rx_ring(l, peer, fd, &ring);
	if (err) {
		say_refused(-err);
		peer->in = fd;
		ring_unmap(&ring);
		refuse_slot(l, slot); /* closes our end, which tells the other process */
	}
	return 0;
}

/* Reads a caller's greeting. False: the greeting has not come yet. */
static bool hear(struct loop *l, int fd) REQUIRES(l->local.lock)
{
	struct introduction in;
	int err = introduction_receive(fd, &in);
	bool heard = !err;

	if (err == -EAGAIN)
		return false;
	if (!err) {
		err = helper_watch_local(l, fd, false) ?: take_greeting(l, fd, &in);
		introduction_close(&in);
	}
	if (err)
		close(fd);
	if (err && heard) {
		if (err != -ECONNREFUSED) /* refused by this process: logged before */
			say_refused(-err);
		refuse_slot(l, (uint16_t)in.greeting.slot);
	}
	return true;
}

/* Keeps a caller whose greeting the helper reads when it comes. */
static void keep_caller(struct loop *l, int fd) REQUIRES(l->local.lock)
{
	struct caller *c = malloc(sizeof(*c));

	if (!c || helper_watch_local(l, fd, true)) {
		free(c);
		close(fd);
		return;
	}
	*c = (struct caller){.fd = fd};
	list_append(&l->local.callers, &c->link);
}

/* Makes a new listener, as no descriptor is free for a caller. The end of the old listener tells the caller, and the
 * next attempt usually finds a descriptor again. */
static void renew_listener(struct loop *l) REQUIRES(l->local.lock)
{
	struct local *local = &l->local;

	fd_close(&local->listener);
	local->listener = introduction_listen(l->slot.number);
	if (local->listener >= 0 && helper_watch_local(l, local->listener, true))
		fd_close(&local->listener);
}

/* Accepts all callers. Most greetings have come by then. */
static void hear_callers(struct loop *l) REQUIRES(l->local.lock)
{
	int fd;

	while ((fd = callers_accept(l->local.listener)) != -EAGAIN && fd != -EBUSY)
		if (unlikely(fd < 0)) /* the end of the connection tells the caller; both use udp */
			say_refused(-fd);
		else if (!hear(l, fd))
			keep_caller(l, fd);
	if (unlikely(fd == -EBUSY))
		renew_listener(l);
}

static bool has_event(int fd, short event)
{
	struct pollfd p = {.fd = fd, .events = event};

	return poll(&p, 1, 0) > 0 && p.revents;
}

/* Loses a local peer that hung up. If it lives and never called back, it has no descriptor for calls and is refused:
 * the two must not meet later (refuse_slot()). */
static void lose_or_refuse(struct loop *l, struct local_peer *peer) REQUIRES(l->local.lock)
{
	if (peer->in < 0 && slot_is_alive(peer->slot))
		refuse_slot(l, peer->slot);
	else
		lose(l, peer);
}

void local_serve_connection(struct loop *l, int fd)
{
	struct local *local = &l->local;

	lock_take(&l->local.lock);
	list_each_safe (i, &local->callers) {
		struct caller *c = container_of(i, struct caller, link);

		if (c->fd == fd) {
			if (hear(l, fd))
				forget_caller(c);
			goto out;
		}
	}
	for (uint32_t i = 1; i <= SLOTS; i++) {
		struct local_peer *peer = local->by_slot[i];

		if (peer && (peer->in == fd || peer->out == fd)) {
			if (has_event(fd, POLLRDHUP)) /* other threads read doorbells */
				lose_or_refuse(l, peer);
			break;
		}
	}
out:
	lock_drop(&l->local.lock);
}

void local_serve_listener(struct loop *l)
{
	lock_take(&l->local.lock);
	hear_callers(l);
	lock_drop(&l->local.lock);
}

void local_look(struct loop *l, uint64_t now)
{
	if (!lock_try(&l->local.lock))
		return;
	if (now - l->local.looked >= EXPECT_AGAIN) {
		l->local.looked = now;
		if (has_event(l->local.listener, POLLIN))
			hear_callers(l);
	}
	lock_drop(&l->local.lock);
}

static void call_slot(struct loop *l, uint16_t slot) REQUIRES(l->local.lock)
{
	struct local_peer *peer = is_refused(&l->local, slot) ? NULL : find_peer(l, slot);

	if (peer)
		call_peer(l, peer); /* on failure the next datagram asks again */
}

void local_serve_wanted(struct loop *l)
{
	struct local *local = &l->local;

	for (uint32_t i = 0; i < ARRAY_SIZE(local->wanted); i++) {
		uint64_t slots;

		/* relaxed: see want() in nearby.c */
		if (likely(!atomic_load_explicit(&local->wanted[i], memory_order_relaxed)))
			continue;
		slots = atomic_exchange_explicit(&local->wanted[i], 0, memory_order_relaxed);
		lock_take(&l->local.lock);
		for (; slots && local->on; slots &= slots - 1)
			call_slot(l, 64 * i + (uint32_t)__builtin_ctzll(slots));
		lock_drop(&l->local.lock);
	}
}

/* ---- paths ---- */

/* True if the destination is an address of this host. Both ends must decide alike: a QP that expects UDP does not hear
 * a ring. */
static bool is_here(const struct path *path)
{
	return !memcmp(&path->sgid, &path->dgid, sizeof(path->sgid)) || address_is_loopback(&path->dgid) ||
	       netif_of_address(&path->dgid);
}

void loop_introduce(struct path *path, uint32_t dest_qpn)
{
	struct port *port = path->port;
	struct loop *l = port->loop;
	uint16_t slot = hca_owner(&l->hca, dest_qpn);
	struct local_peer *peer;

	path->local_peer = NULL;
	if (!l->local.on || slot == 0 || !is_here(path))
		return;
	lock_take(&l->local.lock);
	if (has_event(l->local.listener, POLLIN)) /* checked first: accept4(2) makes a socket before it looks */
		hear_callers(l); /* if the peer has called already, both have met before the first packet */
	peer = is_refused(&l->local, slot) ? NULL : find_peer(l, slot);
	if (peer) {
		peer->users++;
		/* A peer that does not listen yet calls when it does. A failure here is handled then, or both have
		 * met. */
		call_peer(l, peer);
		path->local_peer = peer;
	} else {
		refuse_slot(l, slot);
	}
	lock_drop(&l->local.lock);
}

void local_forget(struct path *path)
{
	struct local_peer *peer = path->local_peer;
	struct loop *l;

	if (!peer)
		return;
	l = peer->loop;
	lock_take(&l->local.lock);
	peer->users--;
	free_if_unused(peer);
	lock_drop(&l->local.lock);
	path->local_peer = NULL;
}

/* ---- release of shared memory ---- */

void local_released(void *loop)
{
	struct loop *l = loop;

	lock_take(&l->local.lock);
	for (uint32_t i = 1; i <= SLOTS; i++)
		if (l->local.by_slot[i] && local_peer_state(l->local.by_slot[i]) == LOCAL_PEER_MET)
			local_peer_ring(l->local.by_slot[i]);
	lock_drop(&l->local.lock);
}

/* ---- end and fork ---- */

void local_fini(struct loop *l)
{
	struct local *local = &l->local;

	list_each_safe (i, &local->callers) {
		struct caller *c = container_of(i, struct caller, link);

		close(c->fd);
		forget_caller(c);
	}
	for (uint32_t i = 1; i <= SLOTS; i++) {
		struct local_peer *peer = local->by_slot[i];

		if (peer) {
			ring_unmap(&peer->rx_ring);
			local_peer_lose(peer);
			local_peer_free(peer);
		}
	}
	list_each_safe (i, &local->gone)
		local_peer_free(container_of(i, struct local_peer, gone));
	fd_close(&local->listener);
	fd_close(&local->doorbell);
}

void local_in_child(struct loop *l)
{
	struct local *local = &l->local;

	list_each (i, &local->callers)
		close(container_of(i, struct caller, link)->fd);
	for (uint32_t i = 1; i <= SLOTS; i++) {
		struct local_peer *peer = local->by_slot[i];

		if (!peer)
			continue;
		fd_close(&peer->in);
		fd_close(&peer->out);
		fd_close(&peer->doorbell);
		if (peer->reach)
			reach_abandon(peer->reach);
	}
	fd_close(&local->listener);
	fd_close(&local->doorbell);
}
