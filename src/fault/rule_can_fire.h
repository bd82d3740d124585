/* SPDX-License-Identifier: BSD-2-Clause */
/* Detection of rules that parse but could never fire. */
#ifndef UROCE_FAULT_RULE_CAN_FIRE_H
#define UROCE_FAULT_RULE_CAN_FIRE_H

#include "fault/rule_scan.h"

/* 0: the rule can fire, and its opcodes, sizes and directions are narrowed to those at which it can. -EINVAL:
 * scan_refuse() has given the reason at the current word, the action. `has_when`: the rule has a condition. */
int rule_can_fire(struct scan *s, struct rule *r, bool has_when);

#endif
