/* SPDX-License-Identifier: BSD-2-Clause */
/* What `uroce check` found in all processes of a program, for the systems that show it: a file of JUnit or SARIF, and
 * annotations of GitHub Actions. */
#ifndef UROCE_TOOLS_RUN_REPORT_H
#define UROCE_TOOLS_RUN_REPORT_H

#include <stdbool.h>

struct command;

/* True if the ending of the file's name tells its format. */
bool report_has_format(const char *file);
/* True if findings are to be annotations: in a job of GitHub Actions, unless another `uroce check` makes a report. */
bool report_is_annotated(void);

/* program_run() as a child, with a report in `file` (NULL: annotations only). Returns the exit status: with a file,
 * that of findings also if only a process other than the first has some. */
int report_run(const struct command *command, const char *file, char **argv);

#endif
