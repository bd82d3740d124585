/* SPDX-License-Identifier: BSD-2-Clause */
/* Liveness watch of peer processes on this host: see liveness.h. */
#include "cm/liveness.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/high_fd.h"
#include "cm/cm.h"
#include "cm/machine.h"
#include "cm/tuned.h"
#include "host/name.h"
#include "host/slot.h"
#include "loop/helper.h"
#include "port/gsi.h"
#include "port/receive.h"

#define EVENTS 16

static int ends GUARDED_BY(cm.lock) = -1; /* epoll set of the connections below */
static struct {
	int connection; /* descriptor + 1 of the connection to the process in the slot; 0: none */
	int looks;
	uint64_t lost;	/* ns, when the process was found to have no connection, though it seems to live; 0: not so */
	uint64_t pause; /* ns between looks at it; doubles */
	uint64_t look;	/* ns, the next look */
} watched[SLOTS + 1] GUARDED_BY(cm.lock);
static uint32_t lost_slots GUARDED_BY(cm.lock); /* number of those that are lost */

static void forget_slot(uint16_t slot) REQUIRES(cm.lock)
{
	if (watched[slot].connection)
		close(watched[slot].connection - 1);
	lost_slots -= watched[slot].lost != 0;
	memset(&watched[slot], 0, sizeof(watched[slot]));
}

/* The slot is looked at by the timer, less and less often. A process that ends closes its descriptors one by one, and
 * on a busy machine it may be stopped in between for long. A running process has no connection either if it lacks
 * descriptors, or has UROCE_LOCAL=off. */
static void lose_slot(uint16_t slot) REQUIRES(cm.lock)
{
	uint64_t now = cm_now();

	forget_slot(slot);
	watched[slot].lost = now;
	watched[slot].pause = LIVENESS_FIRST;
	watched[slot].look = now + LIVENESS_FIRST;
	lost_slots++;
	cm.ops->deadline(&cm, watched[slot].look);
}

/* True if the process has ended, or if that is left to the timer. False: look again. */
static bool has_ended(uint16_t slot) REQUIRES(cm.lock)
{
	if (!slot_is_alive(slot)) {
		forget_slot(slot);
		machine_bury(&cm, slot, cm_now());
		return true;
	}
	if (watched[slot].looks++ < LIVENESS_LOOKS)
		return false;
	lose_slot(slot);
	return true;
}

static void look_at_lost(uint16_t slot, uint64_t now) REQUIRES(cm.lock)
{
	if (!slot_is_alive(slot)) {
		forget_slot(slot);
		machine_bury(&cm, slot, now);
	} else if (now - watched[slot].lost > LIVENESS_PATIENCE) {
		forget_slot(slot);
	} else {
		watched[slot].pause *= 2;
		watched[slot].look = now + watched[slot].pause;
	}
}

uint64_t liveness_look(void)
{
	uint64_t next = NEVER, now;
	bool any;

	lock_take(&cm.lock);
	any = lost_slots;
	lock_drop(&cm.lock);
	if (!any)
		return NEVER;
	loop_catch_up();
	lock_take(&cm.lock);
	now = cm_now();
	for (int i = 0; lost_slots && i <= SLOTS; i++) {
		if (watched[i].lost && watched[i].look <= now)
			look_at_lost((uint16_t)i, now);
		if (watched[i].lost)
			next = min_of(next, watched[i].look);
	}
	lock_drop(&cm.lock);
	return next;
}

static void somebody_ended(void *arg)
{
	struct epoll_event event[EVENTS];
	int n;

	lock_take(&cm.lock);
	n = epoll_wait(ends, event, EVENTS, 0);
	lock_drop(&cm.lock);
	/* messages of the dead process may wait in a socket: an RTU comes before the end of its connection */
	loop_catch_up();
	lock_take(&cm.lock);
	for (int i = 0; i < n; i++)
		if (!has_ended((uint16_t)event[i].data.u32))
			loop_not_yet();
	lock_drop(&cm.lock);
}

int liveness_start(void)
{
	int fd = high_fd(epoll_create1(EPOLL_CLOEXEC)), err;

	if (fd < 0)
		return -errno;
	err = loop_watch(fd, somebody_ended, NULL);
	if (err) {
		close(fd);
		return err;
	}
	lock_take(&cm.lock);
	ends = fd;
	lock_drop(&cm.lock);
	return 0;
}

void liveness_forget(void)
{
	for (int i = 0; i <= SLOTS; i++)
		if (watched[i].connection || watched[i].lost)
			forget_slot((uint16_t)i);
	if (ends >= 0)
		close(ends);
	ends = -1;
}

/* True if a process of this host and user that has just sent a message is gone, or about to be. */
static bool is_going(const struct cm_address *address, uint16_t slot)
{
	int probe = slots_probe();
	bool is_taken = slots_have(probe, slot, name_has_folder());

	if (probe >= 0)
		close(probe);
	return (!is_taken || slot_is_alive(slot)) && gsi_is_here(&address->local, &address->remote);
}

bool liveness_is_connected(uint16_t slot)
{
	return watched[slot].connection || slot == gsi_slot();
}

bool liveness_watch(const struct cm_address *address, uint16_t slot, bool has_called)
{
	struct epoll_event event = {.events = EPOLLRDHUP, .data.u32 = slot};
	int fd;

	if (ends < 0 || !slot)
		return false;
	if (slot == gsi_slot())
		return true;
	fd = gsi_call(&address->local, &address->remote, slot);
	if (fd == -ECONNREFUSED && !has_called && is_going(address, slot)) {
		if (!watched[slot].connection && !watched[slot].lost)
			lose_slot(slot);
		return true;
	}
	if (fd < 0 || watched[slot].connection) {
		if (fd >= 0)
			close(fd);
		return fd >= 0;
	}
	if (watched[slot].lost)
		forget_slot(slot);
	if (epoll_ctl(ends, EPOLL_CTL_ADD, fd, &event)) {
		close(fd);
		return false;
	}
	watched[slot].connection = fd + 1;
	return true;
}
