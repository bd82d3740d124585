/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_TOOLS_STAT_STAT_PROMETHEUS_H
#define UROCE_TOOLS_STAT_STAT_PROMETHEUS_H

#include <stdio.h>

struct stats;

/* Prints in Prometheus' text format. */
void stats_prometheus(const struct stats *s, FILE *to);

#endif
