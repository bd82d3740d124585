/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs run with preloaded libraries, and their variables. */
#ifndef UROCE_TOOLS_PROGRAM_H
#define UROCE_TOOLS_PROGRAM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct command;

/* Looks for `name` as execvp(3). False with errno: ENOENT, EACCES. */
bool program_find(const char *name, char *path, size_t room);

/* Prepares `path` of program `name` for program_execute(), and puts liburoce.so.1 in front of its libraries. 0, or
 * an exit status after a message. */
int program_prepare(const struct command *command, const char *name, char path[PATH_MAX]);
/* Executes the program in place of this one. Returns only an exit status after a message. */
int program_execute(const struct command *command, const char *path, char **argv);
/* program_prepare(), then program_execute(). */
int program_run(const struct command *command, char **argv);

/* Sets a variable to the absolute name of a file that can be read or written, as the program may change its
 * directory before it opens a device. 0, or an exit status after a message. */
int program_set_file(const struct command *command, const char *variable, const char *file, bool is_read);

/* Sets UROCE_EXPLAIN to this command. 0 or -1. */
int program_set_explain(void);

/* Prints that the library is missing. Returns the exit status. */
int program_has_no_library(const struct command *command);

/* Reason why a library cannot be preloaded (a message that follows the program's name), or NULL. */
const char *program_refuses_preload(const char *path);

#endif
