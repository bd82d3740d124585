/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets in ordinary epoll instances before their kind is known: once it is, they move to the rsockets of the
 * instance. */
#ifndef UROCE_PRELOAD_EARLY_H
#define UROCE_PRELOAD_EARLY_H

#include <sys/epoll.h>

/* After epoll_ctl() of a new socket has succeeded. */
void early_note(int epfd, int op, int fd, const struct epoll_event *event);
/* The descriptor is one of RDMA from now on. */
void early_move(int fd);
/* The descriptor is closed, or PLAIN. */
void early_forget(int fd);
/* In a child of fork(). */
void early_forget_all(void);

/* Adds an rsocket to an instance. 0 or -errno. */
int epoll_add(int epfd, int fd, struct epoll_event *event);
/* The instance itself is polled. */
void epoll_nest(int epfd);

#endif
