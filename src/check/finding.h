/* SPDX-License-Identifier: BSD-2-Clause */
/* For src/check/: stacks, and how a finding is reported. Any thread, without locks. */
#ifndef UROCE_CHECK_FINDING_H
#define UROCE_CHECK_FINDING_H

#include <stdio.h>

#include "base/base.h"

enum { STACK_DEPTH = 16, PYTHON_TEXT = 256, FINDING_STACKS = 4, FINDING_TEXT = 512 };

/* Return addresses, innermost first, without those of liburoce.so.1 at the top. One copy of each stack, never freed. */
struct stack {
	struct stack *next;
	uint64_t hash;
	uint32_t depth;
	char *python; /* the line of a Python program that called; NULL: there is none, or it was not looked for */
	void *frame[];
};

/* The stack of the caller. NULL: there is no frame of the program, or no memory. */
const struct stack *stack_here(void);
/* The same of a few frames only, and fast: a caller at the same depth of the stack is taken for the same one. */
#define stack_near() stack_near_at(__builtin_return_address(0), __builtin_frame_address(0))
const struct stack *stack_near_at(const void *caller, const void *frame);
/* One that was taken in another way; NULL: no memory. */
const struct stack *stack_of(void *const *frame, uint32_t depth);
/* The code is uroce's. */
bool stack_is_ours(const void *frame);
/* What can be known of a frame: "function (file:line)". */
void stack_frame_text(void *frame, char *text, size_t room);
/* The function of a frame, and the file of its code; "" if unknown. */
void stack_frame_names(void *frame, char *function, char *module, size_t room);
/* The line of a Python program that this thread is in: "function (file:line)"; empty if there is none. */
void python_frame(char *text, size_t room);
/* Loads what names frames: libdw, if it is there. */
void stack_start(void);

/* The classes of findings: the words of UROCE_CHECK, in its order. */
enum check_class {
	CHECK_LEAKS,
	CHECK_HABITS,
	CHECK_BUFFERS,
	CHECK_MAPPINGS, /* only if asked for: caches of registrations outlive mappings knowingly */
	CHECK_RACES,
	CHECK_CLASSES,
};
bool check_wants(enum check_class class);

struct finding {
	enum check_class class;
	const char *name;   /* "leak-region": what a suppression names */
	const char *remedy; /* what to do */
	uint64_t amount;    /* for the count of the summary: how many at once; 0 is 1 */
	struct {
		const char *title;
		const struct stack *stack;
	} at[FINDING_STACKS]; /* the first one is the place, by which findings are the same */
	char text[FINDING_TEXT];
};

/* Reports it, unless it is suppressed or was reported at this place before. */
void finding_report(const struct finding *f);

/* At the end. finding_sum_up() returns the exit status that the process should get; 0: its own. */
void leaks_report(void);
int finding_sum_up(void);
void finding_start(void);

#endif
