/* SPDX-License-Identifier: BSD-2-Clause */
/* The signals that ask a command for the end of what it runs: SIGINT, SIGTERM and SIGHUP. They wait in a descriptor, so
 * that none is lost between a look and a wait. Those that were ignored stay ignored. One thread. */
#ifndef UROCE_TOOLS_RUN_ENDING_H
#define UROCE_TOOLS_RUN_ENDING_H

#include <stdbool.h>
#include <sys/types.h>

/* Begins to keep the signals. Where there is no descriptor for them, they end the command as before. */
void ending_begin(void);

/* In a child, before execve(2): the signals are as they were. */
void ending_forget(void);

/* Readable when the end was asked for; -1: none. */
int ending_fd(void);

/* The signal that asks for the end; 0: none has come. */
int ending_signal(void);

/* Waits for a child's end; when the end is asked for, it gets SIGTERM. Returns its status as from waitpid(2). */
int ending_wait(pid_t child);

/* Runs this program with another subcommand, as its reader can, and waits for it so. `quiet`: what it complains of is
 * not shown. Returns its exit status, or 128 and the signal that asked for the end. */
int ending_run_self(const char *const *argv, bool quiet);

#endif
