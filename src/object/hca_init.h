/* SPDX-License-Identifier: BSD-2-Clause */
/* The beginning of an adapter: the pools of all its objects. */
#ifndef UROCE_HCA_INIT_H
#define UROCE_HCA_INIT_H

#include <stdint.h>

struct hca;
struct hca_ops;

/* Makes an adapter. `seed`: random, so that keys are unpredictable; fixed in a test. `draw`: draws QPNs; NULL, in a
 * test: from the seed. 0, and the caller calls hca_fini() when no object is left; or -ENOMEM. */
int hca_init(struct hca *hca, const struct hca_ops *ops, uint16_t slot, uint64_t seed, uint32_t (*draw)(void *hca));

#endif
