/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs whose path leads from or to an address whose port is down (down.h). */
#ifndef UROCE_PORT_SEVERED_H
#define UROCE_PORT_SEVERED_H

#include "loop/loop.h"

/* Sets path->severed of the QP, and its link. Called where a path may be new. */
void down_renew(struct qp *qp) REQUIRES(qp->lock);

/* After it: the QPs whose path is concerned change their link. The caller has a context open. */
void loop_renew_down(void);

#endif
