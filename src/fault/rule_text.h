/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules as texts: several of them, what is wrong with one, and a firing as a rule. */
#ifndef UROCE_FAULT_RULE_TEXT_H
#define UROCE_FAULT_RULE_TEXT_H

#include "fault/rule.h"

/* Writes "rule: <text>", the carets under the word, and the reason, to `out`. */
void rule_complain(char *out, size_t room, const char *text, const struct rule_error *error);

/* The next of several rules, which newlines and semicolons separate; # begins a comment that ends with the line.
 * Writes it, trimmed, to `out`, and advances *at. 1: there is one; 0: no more; -E2BIG: it is too long. */
int rule_next(const char **at, char out[RULE_TEXT]);

/* The text of the rules: as given, or of the file that "@FILE" names. The caller frees it. NULL: errno. */
char *rules_read(const char *given);

/* The firing `n` of the rule on that queue pair (0: none), written as a rule: replayed, it fires there and only there.
 * `value`: as it was decided. Returns the length. */
int rule_write(char *out, size_t room, const struct rule *rule, uint64_t qp, uint64_t n, const uint64_t value[2]);

#endif
