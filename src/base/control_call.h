/* SPDX-License-Identifier: BSD-2-Clause */
/* The calling side of requests to a process that runs (loop/control.h). */
#ifndef UROCE_CONTROL_CALL_H
#define UROCE_CONTROL_CALL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Connects to the process and sends the request. Returns a descriptor, to be closed when what the request began is to
 * end, and the answer without "ok "; or -1, and why in `answer`. A descriptor that came with the answer goes to *given,
 * else -1; the caller closes it, and can read it without waiting. NULL: none is expected. */
int control_call(pid_t pid, const char *request, char *answer, size_t room, int *given);

/* The rest of control_call(), for a connection on which the request has been sent; `deadline` is of clock_now(). */
int control_take_answer(int fd, char *answer, size_t room, int *given, uint64_t deadline);

/* Sends the request to each process of this user in this network namespace, and calls use() with each descriptor that
 * came with an answer, which is closed afterwards. silent() is called, if it is not NULL, for each that is stopped or
 * does not answer, or refuses, with the reason; for others that end meanwhile nothing is. Many are asked at a time. */
void control_call_all(const char *request, void (*use)(pid_t pid, int given, void *arg),
		      void (*silent)(pid_t pid, const char *why, void *arg), void *arg);

#endif
