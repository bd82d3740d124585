/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that a rule can refuse, by number and by name: calls.def. */
#ifndef UROCE_CALLS_H
#define UROCE_CALLS_H

enum rule_call {
#define CALL(name) CALL_##name,
#include "fault/calls.def"
#undef CALL
	RULE_CALLS
};

extern const char *const rule_calls[];

#endif
