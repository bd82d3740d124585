/* SPDX-License-Identifier: BSD-2-Clause */
/* The program that `uroce demo check` checks. */
#ifndef UROCE_TOOLS_RUN_MISTAKES_H
#define UROCE_TOOLS_RUN_MISTAKES_H

#include <stdbool.h>

struct command;

/* Sends letters, with three mistakes or without. Returns the exit status. */
int mistakes_run(const struct command *command, bool mended);

#endif
