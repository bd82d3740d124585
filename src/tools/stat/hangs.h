/* SPDX-License-Identifier: BSD-2-Clause */
/* What processes that run wait for, from what `uroce stat` is told: they need no trace. One thread. */
#ifndef UROCE_TOOLS_STAT_HANGS_H
#define UROCE_TOOLS_STAT_HANGS_H

struct command;

/* Looks twice at the processes, and prints what has not moved in between, in sentences. Returns the exit status. */
int hangs_explain(const struct command *command, int pids, char **pid);

#endif
