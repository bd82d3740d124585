/* SPDX-License-Identifier: BSD-2-Clause */
/* A program to be run with preloaded libraries, and the variables that it gets. */
#ifndef UROCE_TOOLS_PROGRAM_H
#define UROCE_TOOLS_PROGRAM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct command;

/* Looks for `name` as execvp() does; the path goes to `path`. False, and errno: ENOENT, EACCES. */
bool program_find(const char *name, char *path, size_t room);

/* The path of program `name`, for program_execute(), with liburoce.so.1 in front of its libraries from now on. 0, or
 * the exit status after a complaint. */
int program_prepare(const struct command *command, const char *name, char path[PATH_MAX]);
/* Becomes the program. Returns the exit status after a complaint: it cannot be executed. */
int program_execute(const struct command *command, const char *path, char **argv);
/* Both. */
int program_run(const struct command *command, char **argv);

/* Sets a variable to the name of a file that can be read, or written, made absolute: the program may change its
 * directory before it opens a device. 0, or the exit status after a complaint: it cannot be opened. */
int program_set_file(const struct command *command, const char *variable, const char *file, bool is_read);

/* Complains that the library is nowhere; returns the exit status. */
int program_has_no_library(const struct command *command);

/* Why a library cannot be preloaded into it (a message that follows the program's name), or NULL. */
const char *program_refuses_preload(const char *path);

#endif
