/* SPDX-License-Identifier: BSD-2-Clause */
/* Cancellation: pthread_cancel(3) must not end a thread inside uroce, which would keep locks and leave a queue pair
 * half changed. ibv_post_send() and most other calls of verbs are no cancellation points, though uroce makes system
 * calls in them. So in liburoce.so.1 ld(1)'s --wrap puts the functions of uncancelled.c in place of the C library's
 * that are cancellation points. One is left: ppoll(2), by which a thread waits that is blocked in a call of ours
 * (progress/wait.c). Other sleeps use the function below. */
#ifndef UROCE_UNCANCELLED_H
#define UROCE_UNCANCELLED_H

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* As ppoll(2), but no cancellation point. */
static inline int uncancelled_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time, const sigset_t *mask)
{
	struct timespec left; /* the kernel writes it */

	if (time)
		left = *time;
	return (int)syscall(SYS_ppoll, fds, count, time ? &left : NULL, mask, _NSIG / 8);
}

#endif
