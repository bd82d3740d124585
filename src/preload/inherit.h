/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections that children inherit. A child of fork() has none of its parent's rsockets, as peers write to the
 * parent's memory. It has a number for each, under which the parent keeps the rsocket open. When the child first uses
 * the descriptor, it asks the parent's steward, a thread, for a bridge (bridge.h) to that rsocket. The parent closes a
 * number when the child has closed the descriptor, and all when the child has executed another program or has ended.
 *
 * A family belongs to one fork: a connection between the child and the steward, and the numbers. After a claim the
 * parent's own descriptors of that connection are the bridge's, too. */
#ifndef UROCE_INHERIT_H
#define UROCE_INHERIT_H

#include <stdbool.h>

/* Around a fork: before, and after in the parent or in the child. */
void inherit_before_fork(void);
void inherit_after_fork(void);
/* Whether RDMA descriptors become INHERITED; else the connections are lost. */
bool inherit_in_child(void);

/* In a child: an INHERITED descriptor is used, and becomes PLAIN. */
void inherit_claim(int fd);
/* It is closed, and becomes PLAIN. */
void inherit_decline(int fd);

#endif
