/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets in ordinary epoll instances before their kind is known: once it is, they move to the rsockets of the
 * instance. */
#ifndef UROCE_PRELOAD_EARLY_H
#define UROCE_PRELOAD_EARLY_H

#include <sys/epoll.h>

/* Notes a new socket in an instance, after epoll_ctl() has succeeded. */
void early_note(int epfd, int op, int fd, const struct epoll_event *event);
/* Moves the descriptor to the rsockets of its instances: it is of RDMA from now on. */
void early_move(int fd);
/* Forgets a descriptor that is closed, or PLAIN. */
void early_forget(int fd);
/* Forgets all, in a child of fork(). */
void early_forget_all(void);

/* Adds an rsocket to an instance. 0 or -errno. */
int epoll_add(int epfd, int fd, struct epoll_event *event);
/* Notes that the instance itself is polled. */
void epoll_nest(int epfd);

#endif
