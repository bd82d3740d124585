/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of the loop: the first open context makes it, the last close ends it. Links by address; fork and exit. */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/address.h"
#include "base/log.h"
#include "link/netif.h"
#include "link/open.h"
#include "loop/count.h"
#include "loop/domain.h"
#include "loop/faults.h"
#include "loop/internal.h"
#include "loop/raw.h"
#include "memory/share.h"
#include "loop/target.h"

/* Bytes in flight at once: half of the receive buffer of a peer like this process, and not much more than a
 * processor's cache holds. */
#define BUDGET_MIN (64u << 10)
#define BUDGET_MAX (512u << 10)
#define EXIT_TRIES 1000 /* times that exit() yields while another thread receives */

_Atomic(struct loop *) loop_current;
static struct lock life; /* guards the fields that say so; the outermost lock */

/* A QPN tells a peer nothing about the others, nor about keys: so it does not come from the keys' seed. */
static uint32_t draw_qpn(void *hca)
{
	uint32_t bits;

	return getrandom(&bits, sizeof(bits), 0) == sizeof(bits) ? bits : hca_random_bits(hca);
}

static struct loop *make_loop(const struct hca_ops *ops)
{
	struct loop *l = aligned_alloc(_Alignof(struct loop), sizeof(*l));
	uint64_t seed;
	int err;

	if (!l)
		goto err;
	memset(l, 0, offsetof(struct loop, handover));
	l->handover.slot = l->handover.bytes = l->handover.packets = l->handover.lost = 0;
	l->handover.dead = l->handover.heard_out = 0;
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		goto err_free;
	err = slot_claim(&l->slot);
	if (err)
		goto err_errno;
	err = hca_init(&l->hca, ops, l->slot.number, seed, draw_qpn);
	if (err)
		goto err_slot;
	err = share_create(&l->hca.share, l->slot.number, l->hca.keys.mix, l->hca.keys.mask, hca_random(&l->hca) | 1);
	if (err) /* all goes through the rings and udp */
		l->hca.share = NULL;
	else
		share_on_release(l->hca.share, local_released, l);
	steering_init(&l->steering, &l->slot);
	l->budget = BUDGET_MIN;
	l->processors = sysconf(_SC_NPROCESSORS_ONLN);
	local_init(l);
	err = helper_init(l);
	if (err)
		goto err_share;
	return l;

err_share:
	local_fini(l);
	share_destroy(l->hca.share);
	hca_fini(&l->hca);
err_slot:
	slot_release(&l->slot);
err_errno:
	errno = -err;
err_free:
	free(l);
err:
	return NULL;
}

static void free_loop(struct loop *l)
{
	helper_fini(l);
	local_fini(l);
	steering_fini(&l->steering);
	slot_release(&l->slot);
	target_fini(l);
	share_destroy(l->hca.share);
	hca_fini(&l->hca);
	free(l->port);
	free(l);
}

/* ---- fork: the child keeps none of these descriptors, and touches nothing that other threads may have locked ---- */

static void loop_before_fork(void) ACQUIRE(life)
{
	struct loop *l;

	lock_take(&life);
	l = atomic_load_explicit(&loop_current, memory_order_relaxed);
	if (l) {
		lock_take(&l->local.lock);
		lock_hand_over(&l->local.lock); /* loop_after_fork() drops it */
	}
}

static void loop_after_fork(void) RELEASE(life)
{
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_relaxed);

	if (l) {
		lock_take_over(&l->local.lock);
		lock_drop(&l->local.lock);
	}
	lock_drop(&life);
}

static void loop_in_child(void) RELEASE(life)
{
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_relaxed);

	raw_forget();
	domains_forget();
	if (l) {
		atomic_store_explicit(&l->hca.inert, true, memory_order_relaxed);
		control_abandon(&l->helper.control);
		helper_close(&l->helper);
		local_in_child(l);
		for (uint32_t i = 0; i < l->ports; i++)
			if (l->port[i]->link->fd >= 0)
				l->port[i]->link->ops->abandon(l->port[i]->link);
		share_abandon(l->hca.share);
		slot_release(&l->slot);
		steering_fini(&l->steering);
	}
	/* the child may open devices of its own */
	atomic_store_explicit(&loop_current, NULL, memory_order_relaxed);
	lock_drop(&life);
}

__attribute__((constructor)) static void loop_watch_forks(void)
{
	static const struct fork_handlers handlers = {loop_before_fork, loop_after_fork, loop_in_child};

	fork_watch(FORK_LOOP, &handlers);
}

/* The helper may have written a completion with an error and not yet sent the NAK that goes with it. No longer than
 * that takes: exit() may have been called from a signal handler, by the thread that receives. */
static void await_receiver(struct loop *l)
{
	for (int tries = 0; tries < EXIT_TRIES; tries++) {
		if (lock_try(&l->receive)) {
			lock_drop(&l->receive);
			return;
		}
		sched_yield();
	}
}

/* A peer may wait for an ACK that is delayed until our next request. Another process on the address may wait for
 * packets that came to this one's socket, as they do while it has found no memory to steer them: of datagrams, nobody
 * would send them again. */
__attribute__((destructor)) static void flush_at_exit(void)
{
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_acquire);

	if (!l)
		return;
	await_receiver(l);
	if (hook_is_on(HOOK_FAULT))
		faults_release_all(l);
	if (has_ready(l) || has_delayed_ack(l))
		helper_flush(l);
	loop_pass_on(l);
	for (uint32_t i = 0; uroce_log_on(LOG_DEBUG) && i < l->ports; i++)
		l->port[i]->link->ops->tell(l->port[i]->link);
}

/* ---- adapter, ports, paths ---- */

struct hca *loop_get(const struct hca_ops *ops)
{
	struct loop *l;

	lock_take(&life);
	l = atomic_load_explicit(&loop_current, memory_order_relaxed); /* only written under the lock */
	if (!l) {
		l = make_loop(ops);
		atomic_store_explicit(&loop_current, l, memory_order_release); /* pairs with loop_progress() */
	}
	if (l)
		l->users++;
	lock_drop(&life);
	return l ? &l->hca : NULL;
}

/* A new context makes a new loop. */
static void end_loop(struct loop *l) REQUIRES(life)
{
	atomic_store_explicit(&loop_current, NULL, memory_order_relaxed);
	lock_take(&l->receive);
	l->ended = true;
	sleep_renew(l);
	lock_drop(&l->receive);
}

/* The last context, or the last thread after loop_pin(), frees the loop. */
static void drop_user(struct loop *l, bool is_context)
{
	bool last;

	if (loop_is_inert(l))
		return; /* a child's copy: belongs to the parent */
	lock_take(&life);
	if (!is_context)
		l->pins--;
	else if (--l->users == 0)
		end_loop(l);
	last = !l->users && !l->pins;
	lock_drop(&life);
	if (last)
		free_loop(l);
}

void loop_put(struct hca *hca)
{
	drop_user(container_of(hca, struct loop, hca), true);
}

struct loop *loop_pin(void)
{
	struct loop *l;

	lock_take(&life);
	l = atomic_load_explicit(&loop_current, memory_order_relaxed);
	if (l)
		l->pins++;
	lock_drop(&life);
	return l;
}

void loop_unpin(struct loop *l)
{
	if (l)
		drop_user(l, false);
}

bool loop_exists(void)
{
	return atomic_load_explicit(&loop_current, memory_order_relaxed);
}

struct loop *loop_hold(void) ACQUIRE(life)
{
	lock_take(&life);
	return atomic_load_explicit(&loop_current, memory_order_relaxed);
}

void loop_release(void) RELEASE(life)
{
	lock_drop(&life);
}

/* Slots of other processes are known once this one has the table of them. */
static void loop_learn_owners(struct loop *l)
{
	/* release pairs with hca_owner() */
	atomic_store_explicit(&l->hca.owners, steering_owners(&l->steering), memory_order_release);
}

static int loop_set_slots(struct loop *l, struct link *link)
{
	uint16_t slots[SLOT_PARTS];
	uint32_t count = 0;

	for (uint32_t i = 0; i < SLOT_PARTS; i++) {
		slots[count] = atomic_load_explicit(&l->hca.slots[i], memory_order_relaxed);
		count += slots[count] != 0;
	}
	return link_set_slots(link, slots, count);
}

/* What comes for the slot reaches this process before any object has a number of it. */
static int loop_claim_slot(struct loop *l, uint32_t part) REQUIRES(life)
{
	struct services *services;
	int lock = steering_enter(&l->steering, &services), slot;

	if (lock < 0)
		return lock;
	slot = slot_claim_more(&l->slot, part);
	if (slot > 0) {
		loop_learn_owners(l);
		steering_own(&l->steering, (uint16_t)slot);
		hca_add_slot(&l->hca, (uint16_t)slot);
		for (uint32_t i = 0; i < l->ports; i++) {
			if (l->port[i]->netif || l->port[i]->raw)
				continue;
			steering_renew(&l->port[i]->steered);
			loop_set_slots(l, l->port[i]->link); /* if it fails, packets come by the UDP socket */
		}
	}
	steering_leave(lock);
	return slot < 0 ? slot : 0;
}

void loop_learn_slots(struct hca *hca)
{
	struct loop *l = container_of(hca, struct loop, hca);
	struct services *services;
	int lock;

	if (atomic_load_explicit(&hca->owners, memory_order_relaxed) || loop_is_inert(l))
		return;
	lock_take(&life);
	lock = steering_enter(&l->steering, &services);
	loop_learn_owners(l);
	steering_leave(lock);
	lock_drop(&life);
}

int loop_make_room(struct hca *hca)
{
	struct loop *l = container_of(hca, struct loop, hca);
	int part, err = 0;

	if (likely(hca_wants_slot(hca) < 0) || loop_is_inert(l))
		return 0;
	lock_take(&life);
	part = hca_wants_slot(hca);
	if (part >= 0)
		err = loop_claim_slot(l, (uint32_t)part);
	lock_drop(&life);
	return err;
}

static struct port *find_port(struct loop *l, const union ibv_gid *gid) REQUIRES(life)
{
	for (uint32_t i = 0; i < l->ports; i++)
		if (!memcmp(&l->port[i]->link->gid, gid, sizeof(*gid)))
			return l->port[i];
	return NULL;
}

static void say_in_use(const union ibv_gid *gid)
{
	char text[INET6_ADDRSTRLEN];

	log_error("UDP port %d of %s is in use by another user's uroce, by the kernel's rxe or by some other program: "
		  "run as the same user, or remove the rxe device (rdma link; rdma link delete NAME), or end that "
		  "program (ss -ulpn sport = %d)",
		  ROCE_PORT, gid_print(gid->raw, text), ROCE_PORT);
}

static void set_budget(struct loop *l)
{
	uint32_t room = UINT32_MAX;

	for (uint32_t i = 0; i < l->ports; i++)
		if (l->port[i]->link->room)
			room = min_of(room, l->port[i]->link->room);
	atomic_store_explicit(&l->budget, min_of(max_of(room / 2, BUDGET_MIN), BUDGET_MAX), memory_order_relaxed);
}

static int add_port(struct loop *l, struct port *port) REQUIRES(life)
{
	struct port **more;

	lock_take(&l->receive);
	more = realloc(l->port, (l->ports + 1) * sizeof(*more));
	if (more) {
		l->port = more;
		l->port[l->ports++] = port;
		waitfd_add(l, port->link->fd);
		sleep_renew(l);
	}
	lock_drop(&l->receive);
	return more ? 0 : -ENOMEM;
}

static void remove_port(struct loop *l, struct port *port) REQUIRES(life)
{
	if (uroce_log_on(LOG_DEBUG))
		port->link->ops->tell(port->link);
	lock_take(&l->receive);
	for (uint32_t i = 0; i < l->ports; i++)
		if (l->port[i] == port)
			l->port[i--] = l->port[--l->ports];
	target_forget_port(l, port);
	count_keep(port);
	waitfd_remove(l, port->link->fd);
	sleep_renew(l);
	if (port->netif)
		port->link->ops->close(port->link);
	else
		steering_close(&port->steered, drain_port, port);
	lock_drop(&l->receive);
	free(port->member);
	free(port);
}

void port_stop(struct loop *l, struct port *port) REQUIRES(life)
{
	remove_port(l, port);
}

int port_start(struct loop *l, struct port *port) REQUIRES(life)
{
	int err = add_port(l, port);

	if (err) {
		port->link->ops->close(port->link);
		free(port);
		return err;
	}
	set_budget(l);
	err = helper_start(l) ?: helper_add(l, port);
	if (err)
		remove_port(l, port);
	return err;
}

static int open_port(struct loop *l, const union ibv_gid *gid, struct port **made) REQUIRES(life)
{
	struct port *port = calloc(1, sizeof(*port));
	bool offered = l->steering.service >= 0;
	int err;

	if (!port)
		return -ENOMEM;
	port->loop = l;
	err = steering_open(&l->steering, &port->steered, gid, link_open, &port->link);
	loop_learn_owners(l);
	if (!err && l->hca.slots[slot_part(l->slot.number) ^ 1]) /* the first of the further ones */
		loop_set_slots(l, port->link);
	if (err == -EADDRINUSE)
		say_in_use(gid);
	if (err)
		goto err_free;
	err = add_port(l, port);
	if (err)
		goto err_close;
	set_budget(l);
	err = helper_start(l) ?: helper_add(l, port);
	if (!err && !offered)
		err = helper_serve(l);
	if (err) {
		remove_port(l, port);
		return err;
	}
	local_open(l);
	*made = port;
	return 0;

err_close:
	port->link->ops->close(port->link);
err_free:
	free(port);
	return err;
}

int loop_attach(struct path *path)
{
	struct loop *l;
	struct port *port = NULL;
	int err = run_prepare();

	lock_take(&life);
	l = atomic_load_explicit(&loop_current, memory_order_relaxed);
	if (!err && !l)
		err = -ENODEV; /* in a child, with a context of its parent */
	if (!err)
		port = find_port(l, &path->sgid);
	if (!err && !port)
		err = open_port(l, &path->sgid, &port);
	if (!err) {
		port->users++;
		path->port = port;
	}
	lock_drop(&life);
	return err;
}

void loop_detach(struct path *path)
{
	struct port *port = path->port;

	path->port = NULL;
	if (port->raw || loop_is_inert(port->loop))
		return;
	local_forget(path);
	lock_take(&life);
	if (--port->users == 0)
		remove_port(port->loop, port);
	lock_drop(&life);
}
