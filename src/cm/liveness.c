/* SPDX-License-Identifier: BSD-2-Clause */
/* Liveness watch of peer processes on this host: see liveness.h. */
#include "cm/liveness.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "loop/gsi.h"
#include "loop/loop.h"
#include "loop/slot.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* Linux 5.3; the same on all architectures */
#endif

#define EVENTS 16

static int deaths GUARDED_BY(cm.lock) = -1;	 /* an epoll set of pidfds: readable when a watched process has died */
static int pidfd[SLOTS + 1] GUARDED_BY(cm.lock); /* pidfd of the process in the slot, plus 1; 0: not watched */

static void died(uint16_t slot) REQUIRES(cm.lock)
{
	if (pidfd[slot])
		close(pidfd[slot] - 1);
	pidfd[slot] = 0;
	machine_bury(&cm, slot, agent_now());
}

static void somebody_died(void *arg)
{
	struct epoll_event event[EVENTS];
	int n;

	lock_take(&cm.lock);
	n = epoll_wait(deaths, event, EVENTS, 0);
	for (int i = 0; i < n; i++)
		died((uint16_t)event[i].data.u32);
	lock_drop(&cm.lock);
}

int liveness_start(void)
{
	int fd = high_fd(epoll_create1(EPOLL_CLOEXEC)), err;

	if (fd < 0)
		return -errno;
	err = loop_watch(fd, somebody_died, NULL);
	if (err) {
		close(fd);
		return err;
	}
	lock_take(&cm.lock);
	deaths = fd;
	lock_drop(&cm.lock);
	return 0;
}

void liveness_forget(void)
{
	for (int i = 0; i <= SLOTS; i++)
		if (pidfd[i])
			close(pidfd[i] - 1);
	memset(pidfd, 0, sizeof(pidfd));
	if (deaths >= 0)
		close(deaths);
	deaths = -1;
}

/* A pidfd of the process in the slot; -1: it cannot be watched. */
static int open_process(uint16_t slot)
{
	pid_t pid = gsi_process(slot);

	return pid > 0 ? high_fd((int)syscall(SYS_pidfd_open, pid, 0)) : -1;
}

void liveness_watch(const struct connection *c)
{
	uint16_t slot = c->remote_id >> (32 - SLOT_BITS);
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = slot};
	int fd;

	if (deaths < 0 || !slot || slot == gsi_slot() || pidfd[slot] ||
	    memcmp(&c->address.local, &c->address.remote, sizeof(c->address.local)))
		return;
	fd = open_process(slot);
	if (fd < 0)
		return;
	if (epoll_ctl(deaths, EPOLL_CTL_ADD, fd, &event))
		close(fd);
	else
		pidfd[slot] = fd + 1;
}
