/* SPDX-License-Identifier: BSD-2-Clause */
/* Who dies without a word cannot part from its peers. A peer that is a process of this host, at our own address, is
 * seen to die: a pidfd tells. (Of peers on other hosts only silence tells.) */
#ifndef UROCE_LIVENESS_H
#define UROCE_LIVENESS_H

#include "cm/agent.h"

/* 0 or -errno: nobody is watched then. Blocks. */
int liveness_start(void) EXCLUDES(cm.lock);
/* In a child after fork. */
void liveness_forget(void) REQUIRES(cm.lock);

/* The peer of this connection has said something: watch it, if it is one of our host. */
void liveness_watch(const struct connection *c) REQUIRES(cm.lock);

#endif
