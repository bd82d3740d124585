/* A protection domain. Made and freed by verbs/pd.c; `users` counts the objects in it.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_PD_H
#define UROCE_PD_H

#include <infiniband/verbs.h>
#include <stdatomic.h>

struct hca;

struct pd {
	struct ibv_pd base; /* what the application holds: first */
	struct hca *hca;
	_Atomic uint32_t users;
};

#endif
