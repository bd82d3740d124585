/* SPDX-License-Identifier: BSD-2-Clause */
/* The words and numbers of a rule's text, from left to right. Functions that return int return 0, or -EINVAL with
 * the error filled in for the current word. The caller owns the scan; nothing is allocated. */
#ifndef UROCE_FAULT_RULE_SCAN_H
#define UROCE_FAULT_RULE_SCAN_H

#include "fault/rule.h"
#include "fault/rule_words.h"

#define WORDS_MOST 64 /* max words allowed at one place */

struct scan {
	struct rule_error *error;
	const char *text;
	uint32_t at;	     /* index behind the current word */
	uint32_t from, size; /* the current word */
	bool colon;	     /* the current word is the last before the colon */
};

/* Refuses the current word with a reason. -EINVAL. */
int scan_refuse(struct scan *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Refuses the current word, which is none of `names`, and suggests the nearest. `kind`: what the word should be.
 * -EINVAL. */
int scan_refuse_unknown(struct scan *s, const char *kind, const char *const *names, size_t count);

/* Moves to the next word. False at the end. */
bool scan_next(struct scan *s);
/* Compares the current word with a name, ignoring case; copies it. */
bool scan_is(const struct scan *s, const char *name);
void scan_copy(const struct scan *s, char *out, size_t room);
/* The row of the current word, or NULL. */
const struct rule_word *scan_find(const struct scan *s, const struct rule_words *words);
/* Appends the names of a table to `names`, for scan_refuse_unknown(). */
void scan_add_names(const char *names[WORDS_MOST], uint32_t *count, const struct rule_words *words);

/* Takes the next word, one of a table. */
int scan_named(struct scan *s, const char *kind, const struct rule_words *words, uint64_t *value);
/* Takes "N" or "N..M", numbers or times (ns), between `least` and `most`. */
int scan_range(struct scan *s, bool is_time, struct rule_range *range, uint64_t least, uint64_t most);
/* Takes "N" alone. */
int scan_number(struct scan *s, bool is_time, uint64_t *value, uint64_t least);
/* Takes "1%", "0.5%" or "1/8", in units of 2^-64. */
int scan_probability(struct scan *s, uint64_t *probability);

#endif
