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

/* Called around a fork: before, and after in the parent. */
void inherit_before_fork(void);
void inherit_after_fork(void);
/* Called in the child. True: RDMA descriptors become INHERITED; false: their connections are lost. */
bool inherit_in_child(void);

/* Asks for the bridge of an INHERITED descriptor that is used in a child. It becomes PLAIN. */
void inherit_claim(int fd);
/* Declines the bridge of an INHERITED descriptor that is closed. It becomes PLAIN. */
void inherit_decline(int fd);

#endif
