/* SPDX-License-Identifier: BSD-2-Clause */
/* Output style: colours on a terminal, plain text elsewhere (or with NO_COLOR set, no-color.org). */
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

/* Escape sequence of a style on stdout, or "" without colours; PLAIN ends the style. */
const char *style(enum style s);

/* Nanoseconds as microseconds, such as "12.34" or "1234.5", in a buffer that a later call overwrites. */
const char *micros(int64_t ns);

/* Columns of the terminal on stdout, or of COLUMNS; 0: no limit. */
unsigned terminal_columns(void);

/* wrap_print() for that terminal. */
void print_wrapped(FILE *to, const char *text, unsigned at, unsigned indent);

#endif
