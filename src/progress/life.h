/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of the loop: the first open context makes it, the last close ends it. Fork and exit. */
#ifndef UROCE_PROGRESS_LIFE_H
#define UROCE_PROGRESS_LIFE_H

#include "object/hca.h"

/* The adapter of this process. The first call makes it and claims a slot among the processes of this network namespace;
 * no thread is started and no port bound yet. Each open context holds one reference, which loop_put() drops. NULL and
 * errno: EUSERS (all slots are taken), ENOMEM, or the error of socket(2). */
struct hca *loop_get(const struct hca_ops *ops);
void loop_put(struct hca *hca);

#endif
