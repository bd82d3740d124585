/* SPDX-License-Identifier: BSD-2-Clause */
/* Ethernet frames between packet sockets and raw packet QPs. Each interface that such a QP uses has a port. Polling
 * threads and the helper read the frames. Any thread may call. */
#ifndef UROCE_PORT_RAW_H
#define UROCE_PORT_RAW_H

#include "object/qp.h"
#include "object/rules.h"

/* Sets qp->loop.raw, through which the QP sends until it is destroyed. 0 or -errno: EPERM (no CAP_NET_RAW; logged),
 * ENOMEM and others. raw_detach() undoes it. */
int raw_attach(struct qp *qp, int interface);
void raw_detach(struct qp *qp);

/* Sends matching frames to rule->qp until raw_remove_rule(). 0 or -errno. The caller owns the rule. */
int raw_add_rule(struct flow_rule *rule);
void raw_remove_rule(struct flow_rule *rule);

/* Receives frames. False: there were none, or another thread receives. */
bool raw_progress(void);

/* Forgets all ports and rules, which belong to the parent: in a child of fork(). */
void raw_forget(void);

#endif
