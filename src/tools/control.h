/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to a process that runs (loop/control.h). */
#ifndef UROCE_TOOLS_CONTROL_H
#define UROCE_TOOLS_CONTROL_H

#include <stddef.h>
#include <sys/types.h>

/* Connects to the process and sends the request. Returns a descriptor, to be closed when what the request began is to
 * end, and the answer without "ok "; or -1, and why in `answer`. */
int control_call(pid_t pid, const char *request, char *answer, size_t room);

#endif
