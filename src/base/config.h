/* SPDX-License-Identifier: BSD-2-Clause */
/* The environment variables of uroce: one table (base/config.def), one parser. Any thread may call, as for getenv(3).
 * Each call reads the environment: callers on a common path cache the value. */
#ifndef UROCE_CONFIG_H
#define UROCE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_PREFIX "UROCE_"

enum config {
#define CONFIG(name, type, initial, values, help) CONFIG_##name,
#define CONFIG_TEST(name, values, help)		  CONFIG_##name,
#include "base/config.def"
#undef CONFIG
#undef CONFIG_TEST
	CONFIG_VARIABLES,
};

enum config_type {
	CONFIG_TYPE_BOOL,
	CONFIG_TYPE_NUMBER,
	CONFIG_TYPE_ENUM,
	CONFIG_TYPE_WORDS, /* an ENUM that may have several words, separated by commas */
	CONFIG_TYPE_STRING,
	CONFIG_TYPE_LIST, /* separated by commas; the caller checks the entries */
};

struct config_row {
	const char *name; /* name with the prefix */
	enum config_type type;
	const char *initial; /* the default; empty: unset */
	const char *values;  /* allowed values */
	const char *help;
	bool for_tests;
};
extern const struct config_row config_row[CONFIG_VARIABLES];

/* The value of a variable: the default if the variable is unset, empty, or has a value that is not allowed. */
bool config_bool(enum config variable);		 /* BOOL */
uint64_t config_number(enum config variable);	 /* NUMBER */
int config_enum(enum config variable);		 /* ENUM: the index of the word in `values` */
enum { LINK_UDP, LINK_PACKET };			 /* values of CONFIG_LINK */
const char *config_string(enum config variable); /* STRING, LIST; NULL: none */

/* STRING: a file's name, in which `%p` becomes the process id. False: no name, or no room. */
bool config_file(enum config variable, char *out, size_t room);

/* WORDS: the index of each word, at most `room`. Returns their number. */
int config_words(enum config variable, int *index, int room);

enum config_fault {
	CONFIG_FINE,
	CONFIG_UNKNOWN, /* the name begins as ours do, and is none of them */
	CONFIG_WRONG,	/* the value means nothing: what depends on it may not begin */
};

/* Checks the assignment "NAME=value" and writes the mistake to `text`. */
enum config_fault config_complaint(const char *assignment, char *text, size_t room);
/* Says each mistake in the environment. False: a value is wrong. */
bool config_is_right(void (*say)(enum config_fault fault, const char *text, void *arg), void *arg);

#endif
