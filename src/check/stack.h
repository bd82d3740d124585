/* SPDX-License-Identifier: BSD-2-Clause */
/* Call stacks. Any thread, without locks. */
#ifndef UROCE_CHECK_STACK_H
#define UROCE_CHECK_STACK_H

#include "base/base.h"

enum { STACK_DEPTH = 16 }; /* max frames of a stack */

/* Return addresses, innermost first, without those of liburoce.so.1 at the top. Each different stack has one copy,
 * which is never freed. */
struct stack {
	struct stack *next;
	uint64_t hash;
	uint32_t depth;
	char *python; /* calling line of a Python program; NULL: none, or not looked for */
	void *frame[];
};

/* Stack of the caller. NULL if no frame belongs to the program, or without memory. */
const struct stack *stack_here(void);
/* The stack of these return addresses; NULL without memory. */
const struct stack *stack_of(void *const *frame, uint32_t depth);
/* True if the code at that address is uroce's. */
bool stack_is_ours(const void *frame);
/* True if it is the C library's. */
bool stack_is_libc(const void *frame);
/* Text "function (file:line)" of a frame, as far as known. */
void stack_frame_text(void *frame, char *text, size_t room);
/* Line and path of the source file of a frame; 0 if it is unknown, or verbs.h. */
int stack_frame_place(void *frame, char *path, size_t room);
/* Function and code file of a frame; "" if unknown. */
void stack_frame_names(void *frame, char *function, char *module, size_t room);
/* Loads libdw, which names frames, if installed. Before all other functions. */
void stack_start(void);

#endif
