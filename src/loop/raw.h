/* SPDX-License-Identifier: BSD-2-Clause */
/* Ethernet frames, between packet sockets and raw packet queue pairs. A port for each interface that such a QP uses;
 * frames are looked for by whoever polls, and by the helper. */
#ifndef UROCE_RAW_H
#define UROCE_RAW_H

#include "object/rules.h"
#include "object/qp.h"

/* What a QP sends through, in qp->raw, from its creation to its end. 0 or -errno: EPERM (without CAP_NET_RAW; a message
 * that says so has been logged), ENOMEM ... */
int raw_attach(struct qp *qp, int interface);
void raw_detach(struct qp *qp);

/* Frames that match go to rule->qp from now on, until it is removed. 0 or -errno. The rule is the caller's. */
int raw_add_rule(struct flow_rule *rule);
void raw_remove_rule(struct flow_rule *rule);

/* Takes what has come. False: nothing had, or another thread is at it. */
bool raw_progress(void);

/* In a child, after fork: all this is the parent's. */
void raw_forget(void);

#endif
