/* SPDX-License-Identifier: BSD-2-Clause */
/* Findings, and how they are reported: as they come, once for each place; and summed up at the end. Any thread, without
 * locks. */
#ifndef UROCE_CHECK_FINDING_H
#define UROCE_CHECK_FINDING_H

#include "check/stack.h"
#include "base/base.h"
#include "check/scope.h"

enum { FINDING_STACKS = 4, FINDING_TEXT = 512 };

struct finding {
	enum check_class class;
	const char *name;   /* the name in suppressions, as "leak-region" */
	const char *remedy; /* advice to the user */
	uint64_t amount;    /* occurrences that this finding counts for in the summary; 0 is 1 */
	struct {
		const char *title;
		const struct stack *stack;
	} at[FINDING_STACKS]; /* the first is the place: findings with the same name and place are one */
	char text[FINDING_TEXT];
};

/* Reports it, unless it is suppressed or was reported at this place before. Keeps errno. */
void finding_report(const struct finding *f);

/* Prints the summary, at the end. Returns the exit status that the process should get; 0: its own. */
int finding_sum_up(void);
/* Reads the settings of reports and the suppressions. Before all others. */
void finding_start(void);

#endif
