/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/callers.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/same_user.h"

static _Atomic int spare = -1; /* a descriptor to be given up. Relaxed: only the number is shared */

void callers_begin(void)
{
	callers_end();
	atomic_store_explicit(&spare, high_fd(eventfd(0, EFD_CLOEXEC)), memory_order_relaxed);
}

void callers_end(void)
{
	int fd = atomic_exchange_explicit(&spare, -1, memory_order_relaxed);

	if (fd >= 0)
		close(fd);
}

static int accept_one(int listener)
{
	int fd;

	do
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
	return fd < 0 ? -errno : fd;
}

/* Accepts and closes one call in place of the spare descriptor. False: the caller still waits. */
static bool turn_away(int listener)
{
	int fd;

	callers_end();
	fd = accept_one(listener);
	if (fd >= 0)
		close(fd);
	callers_begin();
	return fd >= 0;
}

int callers_accept(int listener)
{
	for (;;) {
		int fd = accept_one(listener);

		if (fd < 0)
			return fd == -EAGAIN || turn_away(listener) ? fd : -EBUSY;
		if (same_user_peer(fd, NULL))
			return high_fd(fd);
		close(fd);
	}
}
