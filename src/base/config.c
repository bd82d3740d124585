/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/nearest.h"

const struct config_row config_row[CONFIG_VARIABLES] = {
#define CONFIG(name, type, initial, values, help) \
	[CONFIG_##name] = {CONFIG_PREFIX #name, CONFIG_TYPE_##type, initial, values, help, false},
#define CONFIG_TEST(name, values, help) \
	[CONFIG_##name] = {CONFIG_PREFIX #name, CONFIG_TYPE_STRING, "", values, help, true},
#include "base/config.def"
#undef CONFIG
#undef CONFIG_TEST
};

/* ---- values ---- */

/* The index of the first `length` bytes of `word` in "a|b|c" or "a|b|c,...", or -1. */
static int word_index(const char *words, const char *word, size_t length)
{
	for (int i = 0;; i++) {
		size_t n = strcspn(words, "|,");

		if (n == length && !strncmp(words, word, n))
			return i;
		if (words[n] != '|')
			return -1;
		words += n + 1;
	}
}

static int config_word_index(const char *words, const char *word)
{
	return word_index(words, word, strlen(word));
}

/* Writes the index of each word of `list`, as "c,a,a", to `index`, up to `room`. Returns their number; -1: a word is
 * not in `words`. */
static int parse_words(const char *words, const char *list, int *index, int room)
{
	for (int count = 0;;) {
		size_t n = strcspn(list, ",");
		int i = word_index(words, list, n);

		if (i < 0)
			return -1;
		if (count < room)
			index[count++] = i;
		if (!list[n])
			return count;
		list += n + 1;
	}
}

/* Parses a switch. 1: on, 0: off, -1: neither. */
static int parse_bool(const char *text)
{
	if (config_word_index("on|1|yes|true", text) >= 0)
		return 1;
	return config_word_index("off|0|no|false", text) >= 0 ? 0 : -1;
}

/* Parses a number: decimal, hexadecimal or octal, with a suffix k or M. Returns its end; NULL: no number. */
static const char *parse_number(const char *text, uint64_t *number)
{
	unsigned shift;
	char *end;

	if (!isdigit((unsigned char)*text))
		return NULL;
	errno = 0;
	*number = strtoull(text, &end, 0);
	shift = *end == 'k' || *end == 'K' ? 10 : *end == 'm' || *end == 'M' ? 20 : 0;
	if (errno || *number << shift >> shift != *number)
		return NULL;
	*number <<= shift;
	return end + (shift != 0);
}

/* True if the number is in `range`, "least..most". */
static bool is_allowed_number(const char *range, const char *text, uint64_t *number)
{
	uint64_t least = 0, most = 0;
	const char *end = parse_number(range, &least);

	parse_number(end + 2, &most);
	end = parse_number(text, number);
	return end && !*end && *number >= least && *number <= most;
}

static bool config_value_allowed(const struct config_row *row, const char *value)
{
	uint64_t number;

	switch (row->type) {
	case CONFIG_TYPE_BOOL:
		return parse_bool(value) >= 0;
	case CONFIG_TYPE_NUMBER:
		return is_allowed_number(row->values, value, &number);
	case CONFIG_TYPE_ENUM:
		return config_word_index(row->values, value) >= 0;
	case CONFIG_TYPE_WORDS:
		return parse_words(row->values, value, NULL, 0) >= 0;
	default:
		return true;
	}
}

/* The value as text, never NULL. */
static const char *text_of(enum config variable)
{
	const struct config_row *row = &config_row[variable];
	const char *value = getenv(row->name);

	return value && *value && config_value_allowed(row, value) ? value : row->initial;
}

bool config_bool(enum config variable)
{
	assert(config_row[variable].type == CONFIG_TYPE_BOOL);
	return parse_bool(text_of(variable)) > 0;
}

uint64_t config_number(enum config variable)
{
	uint64_t number = 0;

	assert(config_row[variable].type == CONFIG_TYPE_NUMBER);
	parse_number(text_of(variable), &number);
	return number;
}

int config_enum(enum config variable)
{
	assert(config_row[variable].type == CONFIG_TYPE_ENUM);
	return config_word_index(config_row[variable].values, text_of(variable));
}

int config_words(enum config variable, int *index, int room)
{
	const char *text = text_of(variable);

	assert(config_row[variable].type == CONFIG_TYPE_WORDS);
	return *text ? parse_words(config_row[variable].values, text, index, room) : 0;
}

const char *config_string(enum config variable)
{
	const char *text = text_of(variable);

	assert(config_row[variable].type == CONFIG_TYPE_STRING || config_row[variable].type == CONFIG_TYPE_LIST);
	return *text ? text : NULL;
}

bool config_file(enum config variable, char *out, size_t room)
{
	const char *pattern = config_string(variable);
	size_t n = 0;

	for (; pattern && *pattern && n + 16 < room; pattern++) {
		if (pattern[0] == '%' && pattern[1] == 'p') {
			n += (size_t)snprintf(out + n, room - n, "%d", (int)getpid());
			pattern++;
		} else {
			out[n++] = *pattern;
		}
	}
	out[n] = 0;
	return pattern && !*pattern;
}

/* ---- complaints ---- */

static const struct config_row *row_named(const char *name, size_t length)
{
	for (size_t i = 0; i < CONFIG_VARIABLES; i++)
		if (strlen(config_row[i].name) == length && !memcmp(config_row[i].name, name, length))
			return &config_row[i];
	return NULL;
}

/* nearest_hint() of a variable's name; none of those for tests. */
static const char *hint_of(char *out, size_t room, const char *name)
{
	const char *names[CONFIG_VARIABLES];
	size_t count = 0;

	for (size_t i = 0; i < CONFIG_VARIABLES; i++)
		if (!config_row[i].for_tests)
			names[count++] = config_row[i].name;
	return nearest_hint(out, room, name, names, count);
}

enum config_fault config_complaint(const char *assignment, char *text, size_t room)
{
	const char *value = strchr(assignment, '=');
	const struct config_row *row;
	char name[64], hint[64];

	if (!value || strncmp(assignment, CONFIG_PREFIX, strlen(CONFIG_PREFIX)))
		return CONFIG_FINE;
	snprintf(name, sizeof(name), "%.*s", (int)(value - assignment), assignment);
	row = row_named(assignment, (size_t)(value - assignment));
	value++;
	if (!row) {
		snprintf(text, room, "%s is no variable of uroce%s (`uroce help environment` lists all)", name,
			 hint_of(hint, sizeof(hint), name));
		return CONFIG_UNKNOWN;
	}
	if (!*value || config_value_allowed(row, value))
		return CONFIG_FINE;
	snprintf(text, room, "%s=%s means nothing: allowed is %s", name, value, row->values);
	return CONFIG_WRONG;
}

bool config_is_right(void (*say)(enum config_fault fault, const char *text, void *arg), void *arg)
{
	char text[512];
	bool right = true;

	for (char **assignment = environ; assignment && *assignment; assignment++) {
		enum config_fault fault = config_complaint(*assignment, text, sizeof(text));

		if (fault != CONFIG_FINE)
			say(fault, text, arg);
		right &= fault != CONFIG_WRONG;
	}
	return right;
}
