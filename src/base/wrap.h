/* SPDX-License-Identifier: BSD-2-Clause */
/* Text for a terminal. */
#ifndef UROCE_WRAP_H
#define UROCE_WRAP_H

#include <stddef.h>
#include <stdio.h>

/* Columns of the terminal that a descriptor leads to. 0: no limit, as it leads elsewhere, or to one so narrow that it
 * has to wrap lines by itself. */
unsigned wrap_columns(int fd);

/* Prints text that begins in column `at` of `columns` (0: no limit); words beyond the last column go on a line that
 * begins in column `indent`. Escape sequences take no room. No newline at the end. */
void wrap_print(FILE *to, const char *text, unsigned columns, unsigned at, unsigned indent);

/* Copies lines to `out`, broken at `columns` (0: no limit); what is continued is indented further. Each ends with a
 * newline, the last one also if there is no room for all of it. Returns the bytes. Neither allocates nor locks. */
size_t wrap_lines(char *out, size_t room, const char *text, unsigned columns);

#endif
