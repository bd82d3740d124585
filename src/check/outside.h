/* SPDX-License-Identifier: BSD-2-Clause */
/* What this process may be told by other means than verbs: sockets, pipes, memory that it shares. The kernel knows when
 * a TCP connection had bytes last. Some 100 us each, if not said otherwise. */
#ifndef UROCE_CHECK_OUTSIDE_H
#define UROCE_CHECK_OUTSIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Time (clock_now()) from which on nothing has come by a socket or a pipe; UINT64_MAX: that cannot be known. */
uint64_t outside_heard(void);
/* True if the two processes may share memory that both may write to, other than uroce's. */
bool outside_shares(pid_t other);
/* True if there are such means. It is looked at again after 10 ms, or if there are more or fewer descriptors; else it
 * takes 1 us. One thread at a time. */
bool outside_is_open(void);

#endif
