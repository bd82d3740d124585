/* SPDX-License-Identifier: BSD-2-Clause */
/* Ethernet frames, between packet sockets and raw packet QPs. Each interface that such a QP uses has a port.
 * Threads that poll read the frames, and the helper does. */
#ifndef UROCE_PORT_RAW_H
#define UROCE_PORT_RAW_H

#include "object/qp.h"
#include "object/rules.h"

/* Sets qp->loop.raw, through which the QP sends until it is destroyed. 0 or -errno: EPERM (without CAP_NET_RAW; a
 * message that says so has been logged), ENOMEM ... */
int raw_attach(struct qp *qp, int interface);
void raw_detach(struct qp *qp);

/* Matching frames go to rule->qp until the rule is removed. 0 or -errno. The caller owns the rule. */
int raw_add_rule(struct flow_rule *rule);
void raw_remove_rule(struct flow_rule *rule);

/* Receives frames. False: there were none, or another thread is receiving. */
bool raw_progress(void);

/* In a child, after fork: all of this belongs to the parent. */
void raw_forget(void);

#endif
