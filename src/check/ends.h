/* SPDX-License-Identifier: BSD-2-Clause */
/* Ends of the process other than exit(3): _exit(2), a signal, execve(2). They happen in handlers and beside threads
 * that hold any lock. So a copy of the process, in which no lock is held, reports what was found. */
#ifndef UROCE_CHECK_ENDS_H
#define UROCE_CHECK_ENDS_H

#include <stdbool.h>

/* Installs handlers of signals whose default ends the process. `finish` reports, and returns the exit status for the
 * process or 0. Called once. */
void ends_start(int (*finish)(void));
/* Nothing is reported from now on: it has been, or this is a child of fork(). */
void ends_stop(void);

/* Called before _exit(2). Returns the exit status. Any context. */
int check_exits(int status);
/* Called before an execve(2); what was found is reported if it succeeds. check_stays(): it has failed. Any context. */
int check_leaves(void);
void check_stays(int leaving);

#endif
