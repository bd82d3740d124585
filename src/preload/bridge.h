/* SPDX-License-Identifier: BSD-2-Clause */
/* Bridges: a connection by RDMA as a descriptor of the kernel, one end of a pair of AF_UNIX sockets. Two threads of
 * this process carry bytes between the other end and the rsocket. They serve users that know no rsockets: FILEs of the
 * C library, programs that are executed with a connection as standard input, and children. Any thread may call. */
#ifndef UROCE_BRIDGE_H
#define UROCE_BRIDGE_H

#include <stdbool.h>
#include <sys/socket.h>

/* The descriptor, of kind RDMA, and all others of that connection become a bridge's; if that fails, they stay RDMA. */
void bridge(int fd);
/* The address of the connection of a bridge's descriptor; false: it is none. */
bool bridge_name(int fd, bool peer, struct sockaddr *to, socklen_t *room);
bool bridge_is(int fd);

/* Gives the rsocket of fd another number, which is no descriptor and keeps it open. The number, or -errno. */
int bridge_keep(int fd);
/* A bridge from the rsocket of that number, which it closes in the end. Its descriptor, or -errno. All descriptors of
 * that connection in this process become the bridge's. */
int bridge_build(int number);
/* Makes `fd` a copy of `by`, and closes `by`. `fd` keeps O_NONBLOCK and FD_CLOEXEC. */
void bridge_become(int fd, int by);

/* After a failed call on an rsocket: whether the descriptor is another file by now, so that the call is made again. */
bool bridge_moved(int fd);

/* Around a fork: no bridge is built. */
void bridges_before_fork(void);
void bridges_after_fork(void);
void bridges_in_child(void);

#endif
