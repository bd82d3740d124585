/* SPDX-License-Identifier: BSD-2-Clause */
/* Signals that do not end a wait. The kernel restarts a blocking read(2) after a handler with SA_RESTART, but never
 * poll(2), and does not say whose handler has run. So a wait that must behave as a read blocks those signals while it
 * sleeps, learns of them by a signalfd, and lets their handlers run in between. Any thread may call. */
#ifndef UROCE_PROGRESS_RESTART_H
#define UROCE_PROGRESS_RESTART_H

#include <signal.h>
#include <stdint.h>

/* The signals that are blocked during a sleep. */
struct restart {
	sigset_t mask;	/* the mask during the sleep */
	int fd;		/* a signalfd: readable when a blocked signal is pending; -1: no signal is blocked */
	uint64_t until; /* ns: end of the sleep, after which handlers are read again; NEVER */
};

/* Prepares one sleep of a thread whose own mask is `own`. */
void restart_begin(struct restart *r, const sigset_t *own, uint64_t now);

/* Runs the handlers of pending signals that `own` does not block; signals are blocked by loop_hold_signals(). 0, or
 * -EINTR: a handler had no SA_RESTART. */
int restart_heed(const sigset_t *own);

/* The same when r->fd is readable. */
int restart_woken(const struct restart *r, const sigset_t *own);

/* The result of a sleep that an unknown handler ended. 0, or -EINTR: the program has handlers without SA_RESTART. */
int restart_verdict(const sigset_t *own);

#endif
