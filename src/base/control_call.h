/* SPDX-License-Identifier: BSD-2-Clause */
/* The calling side of requests to a process that runs (loop/control.h). */
#ifndef UROCE_CONTROL_CALL_H
#define UROCE_CONTROL_CALL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Connects to the process and sends the request. Returns a descriptor, which ends what the request began when it is
 * closed, and the answer without "ok "; or -1, and the reason in `answer`. *given: the descriptor that came with the
 * answer, which the caller closes, or -1; reading it does not block. given == NULL: none is expected. */
int control_call(pid_t pid, const char *request, char *answer, size_t room, int *given);

/* The rest of control_call(), for a connection on which the request has been sent; `deadline` is of clock_now(). */
int control_take_answer(int fd, char *answer, size_t room, int *given, uint64_t deadline);

/* Sends the request to each process of this user in this network namespace, many at a time. Calls use() with each
 * descriptor that came with an answer, which is closed afterwards. Calls silent(), unless it is NULL, with the reason
 * for each process that is stopped, does not answer or refuses; not for processes that end meanwhile. */
void control_call_all(const char *request, void (*use)(pid_t pid, int given, void *arg),
		      void (*silent)(pid_t pid, const char *why, void *arg), void *arg);

#endif
