/* SPDX-License-Identifier: BSD-2-Clause */
/* An address handle: the destination of a UD work request. verbs/ah.c creates and frees it; constant in between. A work
 * request copies what it needs, so the handle may be destroyed once ibv_post_send() has returned. */
#ifndef UROCE_AH_H
#define UROCE_AH_H

#include "object/qp.h"

struct ah {
	struct ibv_ah base; /* the application's object: first */
	struct pd *pd;	    /* domain that protects */
	uint32_t handle;
	struct path path;
};

#endif
