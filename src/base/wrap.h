/* SPDX-License-Identifier: BSD-2-Clause */
/* Text for a terminal. */
#ifndef UROCE_WRAP_H
#define UROCE_WRAP_H

#include <stdio.h>

/* Prints text that begins in column `at` of `columns` (0: no limit); words beyond the last column go on a line that
 * begins in column `indent`. Escape sequences take no room. No newline at the end. */
void wrap_print(FILE *to, const char *text, unsigned columns, unsigned at, unsigned indent);

#endif
