/* SPDX-License-Identifier: BSD-2-Clause */
/* How the tools look: colours on a terminal, plain text elsewhere (or with NO_COLOR set, no-color.org). */
#ifndef UROCE_TOOLS_TERMINAL_H
#define UROCE_TOOLS_TERMINAL_H

#include <stdint.h>
#include <stdio.h>

enum style {
	PLAIN,
	BOLD,
	DIM,
	GREEN,
	YELLOW,
	RED,
	CYAN,
};

/* The escape sequence that starts a style on stdout ("" where there are no colours); PLAIN ends it. */
const char *style(enum style s);

/* "0.00", "12.34", "1234.5": nanoseconds as microseconds, into a buffer that a later call uses again. */
const char *micros(int64_t ns);

/* Columns of the terminal that stdout is, or COLUMNS says; 0: no limit, since it is neither. */
unsigned terminal_columns(void);

/* wrap_print() for that terminal. */
void print_wrapped(FILE *to, const char *text, unsigned at, unsigned indent);

#endif
