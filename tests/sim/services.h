/* SPDX-License-Identifier: BSD-2-Clause */
/* A world of UC, UD, shared receive queues and XRC. */
#ifndef SIM_SERVICES_H
#define SIM_SERVICES_H

#include "world.h"

void services_init(struct world *w, uint64_t seed, const struct options *options);
void services_run(struct world *w);
void services_fini(struct world *w);

#endif
