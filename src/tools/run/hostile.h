/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_TOOLS_RUN_HOSTILE_H
#define UROCE_TOOLS_RUN_HOSTILE_H

struct command;

/* Sets the variables for the rules of a seed (NULL: random), and prints the seed. 0, or an exit status. */
int hostile_prepare(const struct command *command, const char *seed);

#endif
