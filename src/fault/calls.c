/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/calls.h"

const char *const rule_calls[] = {
#define CALL(name) #name,
#include "fault/calls.def"
#undef CALL
};
