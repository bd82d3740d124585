/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/terminal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/wrap.h"

static bool has_colours(void)
{
	static int known = -1;
	const char *term = getenv("TERM"), *no = getenv("NO_COLOR");

	if (known < 0)
		known = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") && !(no && *no);
	return known;
}

const char *style(enum style s)
{
	static const char *const start[] = {
		[PLAIN] = "\033[0m",   [BOLD] = "\033[1m", [DIM] = "\033[2m",	[GREEN] = "\033[32m",
		[YELLOW] = "\033[33m", [RED] = "\033[31m", [CYAN] = "\033[36m",
	};

	return has_colours() ? start[s] : "";
}

const char *micros(int64_t ns)
{
	static char buffer[8][32];
	static unsigned next;
	char *text = buffer[next++ % 8];
	double us = (double)ns / 1000;

	snprintf(text, sizeof(buffer[0]), us > -1000 && us < 1000 ? "%.2f" : "%.0f", us);
	return text;
}

unsigned terminal_columns(void)
{
	const char *text = getenv("COLUMNS");
	unsigned columns;

	if (text && sscanf(text, "%u", &columns) == 1 && columns >= 40)
		return columns;
	return wrap_columns(STDOUT_FILENO);
}

void print_wrapped(FILE *to, const char *text, unsigned at, unsigned indent)
{
	wrap_print(to, text, terminal_columns(), at, indent);
}
