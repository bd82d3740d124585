/* SPDX-License-Identifier: BSD-2-Clause */
/* An address handle: where a UD QP sends. Made and freed by verbs/ah.c; constant in between. A work request
 * copies what it needs, so it may be destroyed once ibv_post_send() has returned. */
#ifndef UROCE_AH_H
#define UROCE_AH_H

#include "object/qp.h"

struct ah {
	struct ibv_ah base; /* what the application holds: first */
	struct pd *pd;	    /* that protects */
	uint32_t handle;
	struct path path;
};

#endif
