/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/wrap.h"

#include <stdbool.h>
#include <string.h>

/* Columns that a word takes; *bytes: its bytes. */
static unsigned word_width(const char *word, size_t *bytes)
{
	unsigned width = 0;
	bool escape = false;
	size_t n = 0;

	for (; word[n] && word[n] != ' '; n++) {
		escape |= word[n] == '\033';
		width += !escape;
		escape &= word[n] != 'm';
	}
	*bytes = n;
	return width;
}

void wrap_print(FILE *to, const char *text, unsigned columns, unsigned at, unsigned indent)
{
	unsigned begin = at;

	while (*text) {
		unsigned spaces = (unsigned)strspn(text, " "), width;
		size_t bytes;

		text += spaces;
		width = word_width(text, &bytes);
		if (columns && at > begin && at + spaces + width > columns) {
			fprintf(to, "\n%*s", (int)indent, "");
			at = begin = indent;
		} else {
			fprintf(to, "%*s", (int)spaces, "");
			at += spaces;
		}
		fprintf(to, "%.*s", (int)bytes, text);
		at += width;
		text += bytes;
	}
}
