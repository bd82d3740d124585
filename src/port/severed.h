/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs whose path has an address at either end whose port is down (down.h). */
#ifndef UROCE_PORT_SEVERED_H
#define UROCE_PORT_SEVERED_H

#include "loop/loop.h"

/* Sets path->severed and the link of the QP. Called where a path may be new. */
void down_renew(struct qp *qp) REQUIRES(qp->lock);

/* Changes the link of the QPs concerned, after loop_set_down(). The caller has a context open. */
void loop_renew_down(void);

#endif
