/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections that children inherit. A child of fork() has none of its parent's rsockets, as what peers write to is its
 * parent's memory. What it has is a number for each, under which the parent keeps the rsocket open: when the child uses
 * the descriptor first, it asks the parent's steward, a thread, for a bridge (bridge.h) to that. The parent gives a
 * number back when the child has closed the descriptor; and all, when the child has executed another program or has
 * ended.
 *
 * A family is what one fork has left: a connection between the child and the steward, and the numbers. The parent's own
 * descriptors of a connection that a child has claimed are the bridge's, too. */
#ifndef UROCE_INHERIT_H
#define UROCE_INHERIT_H

#include <stdbool.h>

/* Around a fork, in this order; the last in the parent, or in the child. */
void inherit_before_fork(void);
void inherit_after_fork(void);
/* True: what was RDMA is INHERITED; false: it is lost. */
bool inherit_in_child(void);

/* In a child: a descriptor that is INHERITED is used; it is PLAIN then. */
void inherit_claim(int fd);
/* It is closed. */
void inherit_decline(int fd);

#endif
