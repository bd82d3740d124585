/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits for a completion channel, an asynchronous event or anything else: the waiting thread receives in place of the
 * helper. */
#ifndef UROCE_PROGRESS_WAIT_H
#define UROCE_PROGRESS_WAIT_H

#include <poll.h>
#include <signal.h>

#include "object/qp.h"

/* Blocks until `fd` is readable; makes progress meanwhile, in place of the helper thread. Spins a little first, on more
 * than one processor. 0, -EINTR (a signal came whose handler has no SA_RESTART), or -EAGAIN (fd is O_NONBLOCK and was
 * not readable). */
int loop_wait(int fd);
/* The same for a thread that may have no open context, or whose contexts another thread may close meanwhile. */
int loop_wait_alone(int fd);
/* True if the program has made the descriptor O_NONBLOCK. */
bool loop_is_nonblocking(int fd);

/* A wait for an event that is not a descriptor. `done` checks whether the event has come; it is called often. `arm`
 * makes sure that `wake`, an eventfd, is written when the event comes; it is called before a sleep, unless it was
 * called since the last such write. */
struct loop_wait {
	bool (*done)(void *arg);
	void (*arm)(void *arg);
	void *arg;
	int wake;
	struct pollfd *fds; /* more descriptors that end the wait; their revents are set */
	uint32_t count;
	uint64_t until;		 /* ns: CLOCK_MONOTONIC, or NEVER */
	const sigset_t *signals; /* the thread's mask before loop_hold_signals(); NULL: not called */
	bool restarts;		 /* handlers with SA_RESTART do not end the wait, as they do not end a read(2) */
};

/* Blocks signals from the first check until the sleep, except those that a thread causes itself. A signal must end
 * a wait as it would end a system call, even if it comes during the checks before the sleep; else the program would
 * sleep although its handler told it to stop. The mask before goes to *signals; the caller restores it after the
 * wait. */
void loop_hold_signals(sigset_t *signals);

/* As loop_wait(). 1: done() was true, or a descriptor is ready; 0: `until` has passed; -EINTR, -ENOMEM. */
int loop_wait_for(const struct loop_wait *w);

#endif
