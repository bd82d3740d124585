/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of a thread: proc(5). */
#ifndef UROCE_PROC_STATE_H
#define UROCE_PROC_STATE_H

#include <stdbool.h>
#include <sys/types.h>

/* The state: 'R' runs or could run, 'S' sleeps, 'T' or 't' is stopped, and others; 0: no such thread, or no /proc. The
 * first thread of a process has the number of the process. */
char proc_state(pid_t process, pid_t thread);

/* True if SIGSTOP, a terminal or a debugger has stopped the process. */
static inline bool process_is_stopped(pid_t pid)
{
	char state = proc_state(pid, pid);

	return state == 'T' || state == 't';
}

#endif
