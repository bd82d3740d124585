/* SPDX-License-Identifier: BSD-2-Clause */
/* The words and numbers of a rule's text, from left to right. The functions return 0, or -EINVAL with the error filled
 * in: the word at hand is wrong, for that reason. A caller owns the scan; nothing is allocated. */
#ifndef UROCE_FAULT_RULE_SCAN_H
#define UROCE_FAULT_RULE_SCAN_H

#include "fault/rule.h"
#include "fault/rule_words.h"

#define WORDS_MOST 64 /* words that may stand in one place */

struct scan {
	struct rule_error *error;
	const char *text;
	uint32_t at;	     /* index behind the word at hand */
	uint32_t from, size; /* the word at hand */
	bool colon;	     /* the word was the last one before the colon */
};

/* The word at hand is wrong. Returns -EINVAL. */
int scan_refuse(struct scan *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The word at hand is none of these names: suggests the nearest one. `kind`: what it should be. Returns -EINVAL. */
int scan_refuse_unknown(struct scan *s, const char *kind, const char *const *names, size_t count);

/* Goes on to the next word. False: there is none. */
bool scan_next(struct scan *s);
/* The word at hand: whether it is that name (in any case), and a copy of it. */
bool scan_is(const struct scan *s, const char *name);
void scan_copy(const struct scan *s, char *out, size_t room);
/* Its row of the table; NULL: none. */
const struct rule_word *scan_find(const struct scan *s, const struct rule_words *words);
/* Appends the names of the table to those, for scan_refuse_unknown(). */
void scan_add_names(const char *names[WORDS_MOST], uint32_t *count, const struct rule_words *words);

/* The next word, and its value: of a table; */
int scan_named(struct scan *s, const char *kind, const struct rule_words *words, uint64_t *value);
/* of "N" or "N..M", a number or a time in ns, from `least` to `most`; */
int scan_range(struct scan *s, bool is_time, struct rule_range *range, uint64_t least, uint64_t most);
/* of "N" alone; */
int scan_number(struct scan *s, bool is_time, uint64_t *value, uint64_t least);
/* of "1%", "0.5%" or "1/8", in 2^-64. */
int scan_probability(struct scan *s, uint64_t *probability);

#endif
