/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections by RDMA as descriptors of the kernel's: one end of a pair of AF_UNIX sockets, while two threads of this
 * process carry the bytes between the other end and the rsocket. For those who cannot be told of rsockets: the C
 * library's FILEs, programs that are executed with a connection for their standard input, and children.
 *
 * Any thread may call. */
#ifndef UROCE_BRIDGE_H
#define UROCE_BRIDGE_H

#include <stdbool.h>
#include <sys/socket.h>

/* The descriptor, connected by RDMA, and all others for that connection become the kernel's. If that cannot be it stays
 * what it is. */
void bridge(int fd);
/* The same, if that is what it is. */
void bridge_if_rdma(int fd);

/* The address of the connection behind a bridge; false: it is none. */
bool bridge_name(int fd, bool peer, struct sockaddr *to, socklen_t *room);
bool bridge_is(int fd);

/* The rsocket of fd goes by another number as well, which is no descriptor and keeps it open. The number, or -errno. */
int bridge_keep(int fd);
/* From the rsocket of that number, which it closes in the end, to the descriptor that is returned; or -errno. This
 * process' descriptors of that connection are the bridge's, too. */
int bridge_build(int number);
/* `fd` becomes what `by` is, which goes; it stays non-blocking, and is closed by execve(2) if it was. */
void bridge_become(int fd, int by);

/* Around a fork: nobody builds. */
void bridges_before_fork(void);
void bridges_after_fork(void);
void bridges_in_child(void);

#endif
