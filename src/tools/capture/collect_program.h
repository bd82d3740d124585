/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_TOOLS_CAPTURE_COLLECT_PROGRAM_H
#define UROCE_TOOLS_CAPTURE_COLLECT_PROGRAM_H

struct collect_options;
struct command;

/* Runs a prepared program (tools/program.h) as a child whose packets, and whose children's, are captured. Returns its
 * exit status. */
int collect_program(const struct command *command, const struct collect_options *o, const char *path, char **argv);

#endif
