/* SPDX-License-Identifier: BSD-2-Clause */
/* Findings: each is reported once for each place, and all are summed up at the end. Any thread, without locks. */
#ifndef UROCE_CHECK_FINDING_H
#define UROCE_CHECK_FINDING_H

#include "check/stack.h"
#include "base/base.h"
#include "check/scope.h"

enum { FINDING_STACKS = 4, FINDING_TEXT = 512, FINDING_FDS = 2 };

struct finding {
	enum check_class class;
	const char *name;   /* name in suppressions, such as "leak-region" */
	const char *remedy; /* advice to the user */
	uint64_t amount;    /* occurrences that this finding adds to the summary; 0 means 1 */
	struct {
		const char *title;
		const struct stack *stack;
	} at[FINDING_STACKS]; /* first element: the place. Findings with the same name and place are one */
	char text[FINDING_TEXT];
};

/* Reports `f`, unless suppressed or reported at this place before. Keeps errno. */
void finding_report(const struct finding *f);

/* Counts a failed request for the summary. `cause`: vendor_err of the completion, or 0. Any thread. */
void finding_count_failed(uint32_t cause);

/* Descriptors that findings are written to; -1: none. */
void finding_descriptors(int fd[FINDING_FDS]);
/* Prints the summary at the end. Returns the exit status that the process should get, or 0 for its own. */
int finding_sum_up(void);
/* Reads UROCE_CHECK_* and the suppressions. Before all other functions. */
void finding_start(void);

#endif
