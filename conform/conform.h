/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of adapters, their groups, and the ways in which a check ends. A check that returns has found what the rule
 * expects. Checks of a group run one after the other in a process of their own, see run.c. */
#ifndef CONFORM_CONFORM_H
#define CONFORM_CONFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define SEEN_LENGTH 200

enum verdict { UNTRIED, RIGHT, UNUSUAL, LACKING, WRONG, VERDICTS };

struct rule {
	char id[72]; /* GROUP/FAMILY/CASE */
	const char *source;
	char does[160], expects[160];
};

/* A rule with a check of its own. */
struct row {
	const char *id, *source, *does, *expects;
	void (*check)(void);
};

struct group {
	const char *name;
	const struct row *rows; /* or NULL, and: */
	unsigned (*counted)(void);
	void (*rule)(unsigned i, struct rule *rule);
	void (*check)(unsigned i);
	bool is_long; /* only with --long */
	unsigned count;
};

extern struct group *const groups[];
extern const unsigned group_count;

/* Counts the rules of all groups. Call first. */
void groups_count(void);

void rule_of(const struct group *group, unsigned i, struct rule *rule);
/* Length of GROUP/FAMILY in an id. */
int family_length(const char *id);

/* End the check that runs. */
_Noreturn void wrong(const char *seen, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void unusual(const char *seen, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void lacking(const char *what, ...) __attribute__((format(printf, 1, 2)));

/* Each of them ends the check as wrong unless the values are equal. */
void expect(const char *what, long seen, long expected);
const char *errno_name(int error);
void expect_errno(const char *call, int seen, int expected);

struct outcome {
	enum verdict verdict;
	unsigned ms;
	char seen[SEEN_LENGTH];
};

struct options {
	const char *device, *server; /* server: HOST, of --client */
	const char **only;
	unsigned only_count, processes, jobs, seconds;
	int gid;
	bool long_too;
};
extern struct options options;

bool is_wanted(const struct group *group, const struct rule *rule);
/* Runs what is wanted of all groups. outcomes[g][i] is that of row i of group g. */
void run_all(struct outcome **outcomes);
/* Nanoseconds of a clock that never goes back. */
uint64_t now(void);

enum format { TABLE, TAP, JSON };
/* Prints the outcomes; as a table, only what is not right unless `everything`. Returns the number of rules that are
 * wrong. */
unsigned report(enum format format, struct outcome **outcomes, const char *device, bool everything);

#endif
