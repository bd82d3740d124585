/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/wrap.h"

#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/base.h"
#include "base/tuned.h"

/* Columns that a word takes; *bytes: its bytes. */
static unsigned word_width(const char *word, size_t *bytes)
{
	unsigned width = 0;
	bool escape = false;
	size_t n = 0;

	for (; word[n] && word[n] != ' ' && word[n] != '\n'; n++) {
		escape |= word[n] == '\033';
		width += !escape;
		escape &= word[n] != 'm';
	}
	*bytes = n;
	return width;
}

/* Bytes of the words that a line of `columns` takes from column `at` on: one at least, none beyond a newline. */
static size_t wrap_bytes(const char *text, unsigned columns, unsigned at)
{
	size_t n = 0, bytes;

	while (text[n] && text[n] != '\n') {
		unsigned spaces = (unsigned)strspn(text + n, " "), width = word_width(text + n + spaces, &bytes);

		if (columns && n && at + spaces + width > columns)
			break;
		at += spaces + width;
		n += spaces + bytes;
	}
	return n;
}

/* The rest of the text behind the bytes of a line. */
static const char *wrap_rest(const char *text, size_t bytes)
{
	text += bytes;
	return *text == '\n' ? text + 1 : text + strspn(text, " ");
}

void wrap_print(FILE *to, const char *text, unsigned columns, unsigned at, unsigned indent)
{
	while (*text) {
		size_t bytes = wrap_bytes(text, columns, at);

		fprintf(to, "%.*s", (int)bytes, text);
		text = wrap_rest(text, bytes);
		if (*text)
			fprintf(to, "\n%*s", (int)indent, "");
		at = indent;
	}
}

size_t wrap_lines(char *out, size_t room, const char *text, unsigned columns)
{
	unsigned at = 0, indent = (unsigned)strspn(text, " ") + FURTHER;
	size_t n = 0;

	while (*text && n < room - 1) {
		size_t bytes = wrap_bytes(text, columns, at);
		bool ends = text[bytes] == '\n';

		n += (size_t)snprintf(out + n, room - n, "%*s%.*s\n", (int)at, "", (int)bytes, text);
		text = wrap_rest(text, bytes);
		if (ends)
			indent = (unsigned)strspn(text, " ") + FURTHER;
		at = ends ? 0 : indent;
	}
	if (n > room - 1) {
		n = room - 1;
		out[n - 1] = '\n';
	}
	return n;
}

unsigned wrap_columns(int fd)
{
	struct winsize size = {0};

	if (ioctl(fd, TIOCGWINSZ, &size))
		return 0;
	return size.ws_col >= NARROW ? size.ws_col : 0;
}
