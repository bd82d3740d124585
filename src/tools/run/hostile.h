/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_TOOLS_RUN_HOSTILE_H
#define UROCE_TOOLS_RUN_HOSTILE_H

struct command;

/* Sets the variables for a program that is to meet the rules of a seed, and tells which seed it is. NULL: any. 0, or
 * the exit status. */
int hostile_prepare(const struct command *command, const char *seed);

#endif
