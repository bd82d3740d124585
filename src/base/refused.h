/* SPDX-License-Identifier: BSD-2-Clause */
/* System calls that a sandbox refuses: a seccomp filter of a container, of systemd or of the program. */
#ifndef UROCE_REFUSED_H
#define UROCE_REFUSED_H

#include <stdbool.h>
#include <stddef.h>

/* True if `error` (an errno) is one with which a sandbox refuses a call. */
bool refused_is(int error);

/* Tries each system call that uroce cannot do without, with arguments that change nothing. Returns 0, or the -errno of
 * the first that is refused and the names of all in `names`. Any thread; some microseconds. */
int refused_calls(char *names, size_t room);

/* If some are refused, says that `what` is not possible because of them. Returns 0 or -errno as above. Keeps errno. */
int refused_say(const char *what);

#endif
