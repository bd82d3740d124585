/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/rule_scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"

/* ---- words ---- */

int scan_refuse(struct scan *s, const char *format, ...)
{
	va_list ap;

	s->error->at = s->from;
	s->error->length = max_of(s->size, 1u);
	va_start(ap, format);
	vsnprintf(s->error->text, sizeof(s->error->text), format, ap);
	va_end(ap);
	return -EINVAL;
}

bool scan_is(const struct scan *s, const char *name)
{
	return strlen(name) == s->size && !strncasecmp(s->text + s->from, name, s->size);
}

void scan_copy(const struct scan *s, char *out, size_t room)
{
	snprintf(out, room, "%.*s", (int)s->size, s->text + s->from);
}

/* A colon at the end of a word is not part of it, except in an IPv6 address. */
bool scan_next(struct scan *s)
{
	const char *text = s->text;

	while (isspace((unsigned char)text[s->at]))
		s->at++;
	s->from = s->at;
	while (text[s->at] && !isspace((unsigned char)text[s->at]))
		s->at++;
	s->size = s->at - s->from;
	if (!s->colon && s->size && text[s->at - 1] == ':' && !(s->size > 2 && text[s->at - 2] == ':')) {
		s->colon = true;
		s->size--;
	}
	return s->size;
}

int scan_refuse_unknown(struct scan *s, const char *kind, const char *const *names, size_t count)
{
	char word[64], hint[100];

	scan_copy(s, word, sizeof(word));
	return scan_refuse(s, "there is no %s '%s'%s", kind, word,
			   nearest_hint(hint, sizeof(hint), word, names, count));
}

const struct rule_word *scan_find(const struct scan *s, const struct rule_words *words)
{
	for (uint32_t i = 0; i < words->count; i++)
		if (scan_is(s, words->row[i].name))
			return &words->row[i];
	return NULL;
}

void scan_add_names(const char *names[WORDS_MOST], uint32_t *count, const struct rule_words *words)
{
	for (uint32_t i = 0; i < words->count && *count < WORDS_MOST; i++)
		names[(*count)++] = words->row[i].name;
}

int scan_named(struct scan *s, const char *kind, const struct rule_words *words, uint64_t *value)
{
	const char *names[WORDS_MOST];
	const struct rule_word *found;
	uint32_t count = 0;

	if (!scan_next(s))
		return scan_refuse(s, "a %s is missing here, such as %s", kind, words->row[0].name);
	found = scan_find(s, words);
	scan_add_names(names, &count, words);
	if (!found)
		return scan_refuse_unknown(s, kind, names, count);
	*value = found->value;
	return 0;
}

/* ---- numbers ---- */

static const struct unit {
	const char *name;
	uint64_t factor;
} time_units[] = {{"ns", 1}, {"us", USEC}, {"ms", MSEC}, {"s", SEC}},
  counts[] = {{"", 1}, {"k", 1000}, {"M", 1000000}, {"G", 1000000000}};

/* A number and its unit, from `s` to `end`. */
static bool number_of(const char *s, const char *end, const struct unit *unit, size_t units, uint64_t *value)
{
	char text[32], *rest;
	double n;

	if (end == s || end - s >= (ptrdiff_t)sizeof(text) || !isdigit((unsigned char)*s))
		return false;
	memcpy(text, s, (size_t)(end - s));
	text[end - s] = 0;
	if (unit == counts && text[0] == '0' && text[1] == 'x') {
		*value = strtoull(text, &rest, 16);
		return !*rest && text[2];
	}
	n = strtod(text, &rest);
	for (size_t i = 0; i < units; i++)
		if (!strcmp(rest, unit[i].name) && n * (double)unit[i].factor < 9e18) {
			*value = (uint64_t)(n * (double)unit[i].factor + 0.5);
			return unit[i].factor > 1 || n == (double)*value;
		}
	return false;
}

int scan_range(struct scan *s, bool is_time, struct rule_range *range, uint64_t least, uint64_t most)
{
	const struct unit *unit = is_time ? time_units : counts;
	const char *text, *end, *dots;

	if (!scan_next(s))
		return scan_refuse(s, is_time ? "a time is missing here, such as 10ms" : "a number is missing here");
	text = s->text + s->from;
	end = text + s->size;
	dots = memmem(text, s->size, "..", 2);
	if (!number_of(text, dots ?: end, unit, 4, &range->from) ||
	    (dots && !number_of(dots + 2, end, unit, 4, &range->to)))
		return scan_refuse(s, is_time ? "not a time: write 10us, 5ms, 2s or 1ms..5ms"
					      : "not a number: write 7, 0x7, 4k or 3..7");
	if (!dots)
		range->to = range->from;
	if (range->from > range->to)
		return scan_refuse(s, "an empty range: the rule could never fire");
	if (range->from < least || range->to > most)
		return scan_refuse(s, "not between %llu and %llu: the rule could never fire", (unsigned long long)least,
				   (unsigned long long)most);
	return 0;
}

int scan_number(struct scan *s, bool is_time, uint64_t *value, uint64_t least)
{
	struct rule_range range = {0};
	int err = scan_range(s, is_time, &range, least, INT64_MAX);

	*value = range.from;
	return err ?: range.from != range.to ? scan_refuse(s, "not one number, but a range") : 0;
}

int scan_probability(struct scan *s, uint64_t *probability)
{
	char text[32], *rest;
	double chance, of;

	if (!scan_next(s))
		return scan_refuse(s, "a probability is missing here, such as 1%% or 1/8");
	scan_copy(s, text, sizeof(text));
	chance = strtod(text, &rest);
	if (*rest == '/') {
		of = strtod(rest + 1, &rest);
		chance = of > 0 && !*rest ? chance / of : -1;
	} else {
		chance = !strcmp(rest, "%") ? chance / 100 : -1;
	}
	if (!(chance >= 0 && chance <= 1))
		return scan_refuse(s, "not a probability: write 1%%, 0.5%% or 1/8");
	if (chance == 0)
		return scan_refuse(s, "with a probability of 0 the rule could never fire");
	*probability = chance >= 1 ? RULE_ALWAYS - 1 : (uint64_t)(chance * 18446744073709549568.0);
	return 0;
}
