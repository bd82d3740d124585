/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of the loop: the first open context makes it, the last close ends it. Fork and exit. */
#ifndef UROCE_PROGRESS_LIFE_H
#define UROCE_PROGRESS_LIFE_H

#include "object/hca.h"

/* The adapter of this process. The first call makes it: it claims a slot among the processes of this network
 * namespace. Each open context holds one reference. NULL and errno: EUSERS (all slots are taken), ENOMEM, or
 * the error of socket(2). It starts no thread and binds no port yet. */
struct hca *loop_get(const struct hca_ops *ops);
void loop_put(struct hca *hca);

#endif
