/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of queue pairs that have shown receives to a local peer (object/receives.h). When such a QP fails, messages
 * may be in the ring, or on their way there, that are done for their sender. So its receives are flushed when no thread
 * of the peer is inside of a delivery and the ring has been read. */
#ifndef UROCE_PORT_SETTLE_H
#define UROCE_PORT_SETTLE_H

#include "loop/loop.h"

/* hca_ops.qp_settles */
void settle_later(struct qp *qp);

/* Settles the QPs for which that is possible now. */
void settle_all(struct loop *l) REQUIRES(l->receive);

#endif
