/* SPDX-License-Identifier: BSD-2-Clause */
/* Traces of processes that run. */
#ifndef UROCE_TOOLS_TRACE_LIVE_H
#define UROCE_TOOLS_TRACE_LIVE_H

#include <stdint.h>

struct command;

/* Traces processes, and those of this host that they are connected to, into files of our own, until Ctrl-C, the end of
 * all, or for `seconds`, if not 0. `names` are process ids before; afterwards they and their `count` are those of the
 * files, in memory that stays. 0, or an exit status after a message. */
int live_trace(const struct command *command, char ***names, uint32_t *count, double seconds);

#endif
