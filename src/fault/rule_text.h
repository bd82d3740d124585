/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules as text: lists of rules, errors, and a firing written as a rule. */
#ifndef UROCE_FAULT_RULE_TEXT_H
#define UROCE_FAULT_RULE_TEXT_H

#include "fault/rule.h"

/* Writes the reason, the rule, and carets under the wrong word to `out`. */
void rule_complain(char *out, size_t room, const char *text, const struct rule_error *error);

/* Writes the next rule to `out`, trimmed, and advances *at. Newlines and semicolons separate rules; # begins a
 * comment up to the end of the line. 1: a rule; 0: no more; -E2BIG: too long. */
int rule_next(const char **at, char out[RULE_TEXT]);

/* Text of the rules: `given`, or the contents of the file that "@FILE" names. The caller frees it. NULL with errno. */
char *rules_read(const char *given);

/* Writes firing `count` of the rule on queue pair `qp` (0: none) as a rule that, when replayed, fires only there.
 * `value`: as decided. Returns the length. */
int rule_write(char *out, size_t room, const struct rule *rule, uint64_t qp, uint64_t count, const uint64_t value[2]);

#endif
