/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/command.h"
int demo_command(const struct command *command, int argc, char **argv) { return complain(command, "not yet"); }
