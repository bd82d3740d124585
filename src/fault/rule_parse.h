/* SPDX-License-Identifier: BSD-2-Clause */
/* The parser of rules. An unknown word is refused, and the nearest known one suggested; a rule that could never fire
 * is refused. */
#ifndef UROCE_FAULT_RULE_PARSE_H
#define UROCE_FAULT_RULE_PARSE_H

#include "fault/rule.h"

/* Parses one rule. 0, or -EINVAL with *error if it does not parse or could never fire. */
int rule_parse(struct rule *rule, const char *text, struct rule_error *error);

#endif
