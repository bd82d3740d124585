/* SPDX-License-Identifier: BSD-2-Clause */
/* Bridges: a connection by RDMA as a descriptor of the kernel, one end of a pair of AF_UNIX sockets. Two threads of
 * this process carry bytes between the other end and the rsocket. Bridges serve users that know no rsockets: FILEs of
 * the C library, programs that are executed with a connection as standard input, and children. Any thread may call. */
#ifndef UROCE_BRIDGE_H
#define UROCE_BRIDGE_H

#include <stdbool.h>
#include <sys/socket.h>

/* Turns an RDMA descriptor, and all others of its connection, into a bridge's. On failure they stay RDMA. */
void bridge(int fd);
/* The own address of a bridge's connection, or the peer's. False: the descriptor is no bridge's, as bridge_is()
 * tells. */
bool bridge_name(int fd, bool peer, struct sockaddr *to, socklen_t *room);
bool bridge_is(int fd);

/* Gives the rsocket of fd another number, which is no descriptor and keeps it open. Returns the number, or -errno. */
int bridge_keep(int fd);
/* Builds a bridge from the rsocket of that number, which the bridge closes at its end. Returns its descriptor, or
 * -errno. All descriptors of that connection in this process become the bridge's. */
int bridge_build(int number);
/* Makes `fd` a copy of `by`, and closes `by`. `fd` keeps O_NONBLOCK and FD_CLOEXEC. */
void bridge_become(int fd, int by);

/* True if the descriptor of a failed rsocket call is another file by now, so that the call must be repeated. */
bool bridge_moved(int fd);

/* Called around a fork, during which no bridge is built. */
void bridges_before_fork(void);
void bridges_after_fork(void);
void bridges_in_child(void);

#endif
