/* SPDX-License-Identifier: BSD-2-Clause */
/* The parser of rules: an unknown word is refused, with the nearest known one; so is a rule that could never fire. */
#ifndef UROCE_FAULT_RULE_PARSE_H
#define UROCE_FAULT_RULE_PARSE_H

#include "fault/rule.h"

/* Parses one rule: text up to its end. 0, or -EINVAL with *error filled in: it does not parse, or it could never fire.
 */
int rule_parse(struct rule *rule, const char *text, struct rule_error *error);

#endif
