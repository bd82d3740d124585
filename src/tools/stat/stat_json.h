/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_TOOLS_STAT_STAT_JSON_H
#define UROCE_TOOLS_STAT_STAT_JSON_H

#include <stdio.h>

struct stats;

void stats_json(const struct stats *s, FILE *to);

#endif
