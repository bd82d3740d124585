/* SPDX-License-Identifier: BSD-2-Clause */
/* The request "fault ..." of `uroce fault`: the rules of a process that runs. */
#ifndef UROCE_LOOP_CONTROL_FAULT_H
#define UROCE_LOOP_CONTROL_FAULT_H

#include <stddef.h>

/* As control_verb.begin. "list": a file in *give with a line for each rule: its number, how often it could have fired,
 * how often it did, its text. "add RULE": the answer is its number. "remove N", "clear". */
int control_fault(const char *argument, char *answer, size_t room, int *give);

#endif
