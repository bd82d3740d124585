/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_TOOLS_RUN_RULES_H
#define UROCE_TOOLS_RUN_RULES_H

#include <stdbool.h>

struct command;

/* Checks rules of faults, or those of an @FILE, and adds them to UROCE_FAULT. False after a message. */
bool rules_add(const struct command *command, const char *given);

#endif
