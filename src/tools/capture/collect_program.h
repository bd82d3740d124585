/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_TOOLS_CAPTURE_COLLECT_PROGRAM_H
#define UROCE_TOOLS_CAPTURE_COLLECT_PROGRAM_H

struct collect_options;
struct command;

/* Runs a prepared program (tools/program.h) as a child, and captures its and its children's packets. Returns the
 * exit status. */
int collect_program(const struct command *command, const struct collect_options *o, const char *path, char **argv);

#endif
