/* SPDX-License-Identifier: BSD-2-Clause */
/* Which signals let a wait go on. A blocking read(2) is restarted by the kernel after a handler with SA_RESTART;
 * poll(2) never is, and does not say whose handler has run. So a wait that is to behave as a read holds those signals
 * up while it sleeps, learns of them by a signalfd, and has their handlers run in between.
 *
 * Any thread may call. */
#ifndef UROCE_RESTART_H
#define UROCE_RESTART_H

#include <signal.h>
#include <stdint.h>

/* The signals a sleep holds up. */
struct restart {
	sigset_t mask;	/* of the sleep */
	int fd;		/* readable when one waits that is held up; -1: none is */
	uint64_t until; /* ns: the program may have other handlers by then; NEVER */
};

/* For one sleep of a thread whose own mask is `own`. */
void restart_begin(struct restart *r, const sigset_t *own, uint64_t now);

/* With signals held (loop_hold_signals()): runs the handlers of those that wait and that `own` lets through. 0; or
 * -EINTR: one of them had no SA_RESTART. */
int restart_heed(const sigset_t *own);

/* r->fd is readable: likewise. */
int restart_woken(const struct restart *r, const sigset_t *own);

/* A handler has run, and it is not known whose. 0; or -EINTR: the program has handlers without SA_RESTART. */
int restart_verdict(const sigset_t *own);

#endif
