/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define WORD_MOST 63

static bool same_letter(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Damerau-Levenshtein distance, restricted: cell[i][k] is the distance of the first i and k characters. */
unsigned word_distance(const char *a, const char *b)
{
	unsigned n = (unsigned)strnlen(a, WORD_MOST), m = (unsigned)strnlen(b, WORD_MOST);
	unsigned cell[WORD_MOST + 1][WORD_MOST + 1];

	for (unsigned i = 0; i <= n; i++) {
		for (unsigned k = 0; k <= m; k++) {
			unsigned least;

			if (!i || !k) {
				cell[i][k] = i + k;
				continue;
			}
			least = min_of(cell[i - 1][k], cell[i][k - 1]) + 1;
			least = min_of(least, cell[i - 1][k - 1] + !same_letter(a[i - 1], b[k - 1]));
			if (i > 1 && k > 1 && same_letter(a[i - 1], b[k - 2]) && same_letter(a[i - 2], b[k - 1]))
				least = min_of(least, cell[i - 2][k - 2] + 1);
			cell[i][k] = least;
		}
	}
	return cell[n][m];
}

const char *nearest_word(const char *word, const char *const *words, size_t count)
{
	unsigned least = 2 + (unsigned)strlen(word) / 4;
	const char *nearest = NULL;

	for (size_t i = 0; i < count; i++) {
		unsigned distance = word_distance(word, words[i]);

		if (distance < least) {
			least = distance;
			nearest = words[i];
		}
	}
	return nearest;
}

const char *nearest_hint(char *out, size_t room, const char *word, const char *const *words, size_t count)
{
	const char *nearest = nearest_word(word, words, count);
	size_t at;

	if (nearest) {
		snprintf(out, room, ": did you mean %s?", nearest);
		return out;
	}
	at = (size_t)snprintf(out, room, ": it is one of");
	for (size_t i = 0; i < count && at < room; i++)
		at += (size_t)snprintf(out + at, room - at, "%s %s", i ? "," : "", words[i]);
	if (at >= room)
		*out = 0;
	return out;
}
