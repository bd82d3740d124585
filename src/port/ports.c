/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/log.h"
#include "base/qpn.h"
#include "host/slot.h"
#include "host/steering.h"
#include "link/open.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "loop/waiting.h"
#include "object/hca.h"
#include "port/count.h"
#include "port/local.h"
#include "port/receive.h"
#include "port/run.h"
#include "port/target.h"
#include "port/tuned.h"

/* Gives hca_owner() the table of slots, if this process has it by now. */
static void learn_owners(struct loop *l)
{
	/* release pairs with hca_owner() */
	atomic_store_explicit(&l->hca.owners, steering_owners(&l->steering), memory_order_release);
}

static int set_slots(struct loop *l, struct link *link)
{
	uint16_t slots[SLOT_PARTS];
	uint32_t count = 0;

	for (uint32_t i = 0; i < SLOT_PARTS; i++) {
		slots[count] = atomic_load_explicit(&l->hca.slots[i], memory_order_relaxed);
		count += slots[count] != 0;
	}
	return link_set_slots(link, slots, count);
}

/* Claims one more slot. Packets for it are steered to this process before any object has a number of it. */
static int claim_slot(struct loop *l, uint32_t part) REQUIRES(loop_life)
{
	struct services *services;
	int lock = steering_enter(&l->steering, &services), slot;

	if (lock < 0)
		return lock;
	slot = slot_claim_more(&l->slot, part);
	if (slot > 0) {
		learn_owners(l);
		steering_own(&l->steering, (uint16_t)slot);
		hca_add_slot(&l->hca, (uint16_t)slot);
		for (uint32_t i = 0; i < l->ports; i++) {
			if (l->port[i]->netif || l->port[i]->raw)
				continue;
			steering_renew(&l->port[i]->steered);
			set_slots(l, l->port[i]->link); /* on failure, packets come by the UDP socket */
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
	lock_take(&loop_life);
	lock = steering_enter(&l->steering, &services);
	learn_owners(l);
	steering_leave(lock);
	lock_drop(&loop_life);
}

int loop_make_room(struct hca *hca)
{
	struct loop *l = container_of(hca, struct loop, hca);
	int part, err = 0;

	if (likely(hca_wants_slot(hca) < 0) || loop_is_inert(l))
		return 0;
	lock_take(&loop_life);
	part = hca_wants_slot(hca);
	if (part >= 0)
		err = claim_slot(l, (uint32_t)part);
	lock_drop(&loop_life);
	return err;
}

static struct port *find_port(struct loop *l, const union ibv_gid *gid) REQUIRES(loop_life)
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
		  "run as the same user, or take another address of this host (UROCE_DEVICES=127.0.0.5), or remove the "
		  "rxe device (rdma link; rdma link delete NAME), or end that program (ss -ulpn sport = %d)",
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

static int add_port(struct loop *l, struct port *port) REQUIRES(loop_life)
{
	struct port **more;

	lock_take(&l->receive);
	more = realloc(l->port, (l->ports + 1) * sizeof(*more));
	if (more) {
		l->port = more;
		l->port[l->ports++] = port;
		waiting_add(l, port->link->fd);
		sleep_renew(l);
	}
	lock_drop(&l->receive);
	return more ? 0 : -ENOMEM;
}

static void remove_port(struct loop *l, struct port *port) REQUIRES(loop_life)
{
	if (uroce_log_on(LOG_DEBUG))
		port->link->ops->tell(port->link);
	lock_take(&l->receive);
	for (uint32_t i = 0; i < l->ports; i++)
		if (l->port[i] == port)
			l->port[i--] = l->port[--l->ports];
	target_forget_port(l, port);
	count_keep(port);
	waiting_remove(l, port->link->fd);
	sleep_renew(l);
	if (port->netif)
		port->link->ops->close(port->link);
	else
		steering_close(&port->steered, drain_port, port);
	lock_drop(&l->receive);
	free(port->member);
	free(port);
}

void port_stop(struct loop *l, struct port *port) REQUIRES(loop_life)
{
	remove_port(l, port);
}

int port_start(struct loop *l, struct port *port) REQUIRES(loop_life)
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

static int open_port(struct loop *l, const union ibv_gid *gid, struct port **made) REQUIRES(loop_life)
{
	struct port *port = calloc(1, sizeof(*port));
	bool offered = l->steering.service >= 0;
	int err;

	if (!port)
		return -ENOMEM;
	port->loop = l;
	err = steering_open(&l->steering, &port->steered, gid, link_open, &port->link);
	learn_owners(l);
	if (!err && l->hca.slots[slot_part(l->slot.number) ^ 1]) /* this process has further slots */
		set_slots(l, port->link);
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

	lock_take(&loop_life);
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
	lock_drop(&loop_life);
	return err;
}

void loop_detach(struct path *path)
{
	struct port *port = path->port;

	path->port = NULL;
	if (port->raw || loop_is_inert(port->loop))
		return;
	local_forget(path);
	lock_take(&loop_life);
	if (--port->users == 0)
		remove_port(port->loop, port);
	lock_drop(&loop_life);
}
