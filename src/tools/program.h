/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs to be run with a preloaded library. */
#ifndef UROCE_PROGRAM_H
#define UROCE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* Looks for `name` as execvp() does; the path goes to `path`. False, and errno: ENOENT, EACCES. */
bool program_find(const char *name, char *path, size_t room);

/* Why a library cannot be preloaded into it (a message that follows the program's name), or NULL. */
const char *program_refuses_preload(const char *path);

#endif
