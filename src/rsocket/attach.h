/* SPDX-License-Identifier: BSD-2-Clause */
/* What liburoce-rsocket.so needs beside the public calls: rsockets on descriptors that are there already. All return
 * 0 (or a number) or -errno. */
#ifndef UROCE_RSOCKET_ATTACH_H
#define UROCE_RSOCKET_ATTACH_H

#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* `beneath`: the descriptor is an ordinary socket that matters as well, as a listener's does. */
int rsocket_attach(int fd, int domain, int type, bool beneath);
/* The rsocket of that descriptor goes by another one, too, or by a number that is none; it is closed when both are.
 * -EBUSY: there is one already. */
int rsocket_share(int fd, int other);
/* Numbers from here on are no descriptors. */
#define RSOCKET_NUMBERS (1 << 16)
/* Only who knows it by such a number receives from it from now on, or anybody again. Others that would, or that wait
 * for it, are told ESTALE: they look again what their descriptor is. How many descriptors and numbers it goes by. */
int rsocket_give(int number, bool given);
bool rsocket_is_same(int fd, int other);
/* The descriptor has become an ordinary one: so it is in epoll instances, and no rsocket goes by it. */
void rsocket_hand_back(int fd);
/* Closes the rsocket, and not the descriptor. Nothing if there is none. */
void rsocket_detach(int fd);
/* Whether there is one for rsocket_accept(), or an error. */
bool rsocket_has_connection(int listener);
/* The next connection of the listener goes by that descriptor. */
int rsocket_accept(int listener, int fd);
/* Bytes that can be read at once. */
int rsocket_pending(int fd);
/* Connects; if that fails, or takes too long, and the call does not wait for it, the descriptor is connected instead.
 */
int rsocket_try_connect(int fd, const struct sockaddr *address, socklen_t length);
/* Whether that has happened: then the descriptor is an ordinary socket. */
bool rsocket_is_plain(int fd);
/* Whether it never will: it is connected, or has been. */
bool rsocket_is_settled(int fd);

/* Whether the kernel would go on with a call that a signal has interrupted: no handler says that it is to end. */
bool rsocket_restarts(void);

/* As epoll_ctl() and epoll_wait(), on an ordinary instance: of rsockets, and of all. */
int rsocket_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int rsocket_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout);
/* Whether there are rsockets in it, or have been. */
bool rsocket_epoll_is(int epfd);
/* The instance itself is waited for, by poll() or another instance, from now on: it can be read as long as there may be
 * events. */
void rsocket_epoll_nest(int epfd);
/* What epoll_wait() has found in an ordinary instance, without what is ours. How many are left. */
int rsocket_epoll_strip(struct epoll_event *events, int n);
void rsocket_epoll_close(int epfd);

/* Around fork(), in the table of base/fork.def: the outermost part. */
struct fork_handlers;
void rsocket_watch_forks(const struct fork_handlers *handlers);

struct rsocket_attach_ops {
	void (*watch_forks)(const struct fork_handlers *handlers);
	int (*attach)(int fd, int domain, int type, bool beneath);
	int (*share)(int fd, int other);
	int (*give)(int number, bool given);
	bool (*is_same)(int fd, int other);
	void (*hand_back)(int fd);
	void (*detach)(int fd);
	bool (*has_connection)(int listener);
	int (*accept)(int listener, int fd);
	int (*pending)(int fd);
	int (*try_connect)(int fd, const struct sockaddr *address, socklen_t length);
	bool (*is_plain)(int fd);
	bool (*is_settled)(int fd);
	bool (*restarts)(void);
	int (*epoll_ctl)(int epfd, int op, int fd, struct epoll_event *event);
	int (*epoll_wait)(int epfd, struct epoll_event *events, int max, int timeout);
	bool (*epoll_is)(int epfd);
	void (*epoll_nest)(int epfd);
	int (*epoll_strip)(struct epoll_event *events, int n);
	void (*epoll_close)(int epfd);
};

/* Exported by liburoce.so.1. */
extern const struct rsocket_attach_ops uroce_rsocket_attach;

#endif
