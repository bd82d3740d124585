/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules that parse, and could never fire. */
#ifndef UROCE_FAULT_RULE_CAN_FIRE_H
#define UROCE_FAULT_RULE_CAN_FIRE_H

#include "fault/rule_scan.h"

/* 0: it can fire, and its opcodes, sizes and directions are those at which it can. -EINVAL: scan_refuse() has said at
 * the word at hand, its action, why not. `has_when`: the rule says when. */
int rule_can_fire(struct scan *s, struct rule *r, bool has_when);

#endif
