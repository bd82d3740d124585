/* SPDX-License-Identifier: BSD-2-Clause */
/* A stranger beside the connections, who forges the addresses of their ends and knows their QPNs, but no PSN. */
#ifndef SIM_STRANGERS_H
#define SIM_STRANGERS_H

#include "world.h"

/* Runs the world of this seed twice, without and with forged packets: the two must not differ in a packet that an end
 * sends. Returns the number of forged packets. `w` is scratch memory. */
uint64_t strangers_run(struct world *w, uint64_t seed, const struct options *options);

#endif
