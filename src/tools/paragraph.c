/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/paragraph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 78

/* The paragraph so far. */
static char paragraph[4096];

void say(const char *format, ...)
{
	size_t used = strlen(paragraph);
	va_list ap;

	va_start(ap, format);
	vsnprintf(paragraph + used, sizeof(paragraph) - used, format, ap);
	va_end(ap);
}

void say_end(void)
{
	const char *at = paragraph;
	size_t column = 0;

	while (*at) {
		size_t word = strcspn(at, " ");

		if (column && column + 1 + word > WIDTH) {
			putchar('\n');
			column = 0;
		} else if (column) {
			putchar(' ');
			column++;
		}
		printf("%.*s", (int)word, at);
		column += word;
		at += word + (at[word] == ' ');
	}
	if (column)
		puts("\n");
	*paragraph = 0;
}
