/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks of calls. Any thread, without locks. */
#ifndef UROCE_CHECK_STACK_H
#define UROCE_CHECK_STACK_H

#include "base/base.h"

enum { STACK_DEPTH = 16 }; /* frames of a stack at most */

/* Return addresses, innermost first, without those of liburoce.so.1 at the top. One copy of each stack, never freed. */
struct stack {
	struct stack *next;
	uint64_t hash;
	uint32_t depth;
	char *python; /* line of the Python program that called; NULL: none, or it was not looked for */
	void *frame[];
};

/* The stack of the caller. NULL: there is no frame of the program, or no memory. */
const struct stack *stack_here(void);
/* A few frames of it only, and fast: a caller at the same depth of the stack is taken for the same one. */
#define stack_near() stack_near_at(__builtin_return_address(0), __builtin_frame_address(0))
const struct stack *stack_near_at(const void *caller, const void *frame);
/* A stack of these return addresses; NULL: no memory. */
const struct stack *stack_of(void *const *frame, uint32_t depth);
/* Whether the code at that address is uroce's. */
bool stack_is_ours(const void *frame);
/* What can be known of a frame: "function (file:line)". */
void stack_frame_text(void *frame, char *text, size_t room);
/* The function of a frame, and the file of its code; "" if unknown. */
void stack_frame_names(void *frame, char *function, char *module, size_t room);
/* Loads libdw, which names frames, if it is there. Before all others. */
void stack_start(void);

#endif
