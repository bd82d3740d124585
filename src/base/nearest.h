/* SPDX-License-Identifier: BSD-2-Clause */
/* Suggestions for a misspelled word. */
#ifndef UROCE_NEAREST_H
#define UROCE_NEAREST_H

#include <stddef.h>

/* Edit distance of two words: the number of characters to insert, delete, replace or swap with the next one. Ignores
 * case, and all characters from the 64th on. */
unsigned word_distance(const char *a, const char *b);

/* The word with the smallest distance; the first if there are several. NULL if `count` is 0. */
const char *nearest_word(const char *word, const char *const *words, size_t count);

#endif
