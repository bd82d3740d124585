/* SPDX-License-Identifier: BSD-2-Clause */
/* Suggestions for a misspelled word. */
#ifndef UROCE_NEAREST_H
#define UROCE_NEAREST_H

#include <stddef.h>

/* Edit distance of two words: the number of characters to insert, delete, replace or swap with the next one. Ignores
 * case, and all characters from the 64th on. */
unsigned word_distance(const char *a, const char *b);

/* The word with the smallest distance; the first if there are several. NULL: none is near enough to be meant, which is
 * one edit, and one more for each four characters. */
const char *nearest_word(const char *word, const char *const *words, size_t count);
/* Writes ": did you mean WORD?" to `out`, or else ": it is one of ..." if there is room for all, or else "". Returns
 * it. */
const char *nearest_hint(char *out, size_t room, const char *word, const char *const *words, size_t count);

#endif
