/* SPDX-License-Identifier: BSD-2-Clause */
/* Another user, who binds the abstract names by which processes of this one find each other. */
#ifndef TESTS_SQUATTER_H
#define TESTS_SQUATTER_H

#include <stdbool.h>
#include <sys/types.h>

/* False where only one user is to be had: then the test says so. */
bool squatter_is_possible(void);
/* Has all names when it returns, but those of slots that have a process. */
pid_t squatter_start(void);
void squatter_end(pid_t pid);

/* A folder of this user for names (host/name.h). */
void names_folder_make(void);
void names_folder_remove(void);

#endif
