/* SPDX-License-Identifier: BSD-2-Clause */
/* What a user may have meant by a word that is not known. */
#ifndef UROCE_NEAREST_H
#define UROCE_NEAREST_H

#include <stddef.h>

/* How many characters have to be inserted, deleted, replaced or swapped with the next to make one word of the other.
 * Case does not count; characters from the 64th on do not either. */
unsigned word_distance(const char *a, const char *b);

/* The first of the nearest words; NULL if there are none. */
const char *nearest_word(const char *word, const char *const *words, size_t count);

#endif
