/* SPDX-License-Identifier: BSD-2-Clause */
/* Liveness watch of peer processes on this host: see liveness.h. */
#include "cm/liveness.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "cm/cm.h"
#include "cm/machine.h"
#include "cm/tuned.h"
#include "host/slot.h"
#include "loop/helper.h"
#include "port/gsi.h"
#include "port/receive.h"

#define EVENTS 16

static int ends GUARDED_BY(cm.lock) = -1; /* epoll set of the connections below */
static struct {
	int connection; /* descriptor + 1 of the connection to the process in the slot; 0: not watched */
	int looks;
} watched[SLOTS + 1] GUARDED_BY(cm.lock);

static void forget_slot(uint16_t slot) REQUIRES(cm.lock)
{
	close(watched[slot].connection - 1);
	memset(&watched[slot], 0, sizeof(watched[slot]));
}

/* True if the process has ended. A running process hangs up, too, when it has no descriptor for this connection
 * left. False: look again. */
static bool has_ended(uint16_t slot) REQUIRES(cm.lock)
{
	bool alive = slot_is_alive(slot);

	if (alive && watched[slot].looks++ < LIVENESS_LOOKS)
		return false;
	forget_slot(slot);
	if (!alive)
		machine_bury(&cm, slot, cm_now());
	return true;
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
		if (watched[i].connection)
			forget_slot((uint16_t)i);
	if (ends >= 0)
		close(ends);
	ends = -1;
}

bool liveness_watch(const struct cm_address *address, uint16_t slot)
{
	struct epoll_event event = {.events = EPOLLRDHUP, .data.u32 = slot};
	int fd;

	if (ends < 0 || !slot)
		return false;
	if (slot == gsi_slot())
		return true;
	fd = gsi_call(&address->local, &address->remote, slot);
	if (fd < 0 || watched[slot].connection) {
		if (fd >= 0)
			close(fd);
		return fd >= 0;
	}
	if (epoll_ctl(ends, EPOLL_CTL_ADD, fd, &event)) {
		close(fd);
		return false;
	}
	watched[slot].connection = fd + 1;
	return true;
}
