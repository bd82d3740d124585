/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/waiting.h"

#include <sys/epoll.h>

void waiting_watch(const struct waitfd *w, int fd)
{
	struct epoll_event e = {.events = EPOLLIN};

	if (fd >= 0)
		epoll_ctl(w->fd, EPOLL_CTL_ADD, fd, &e);
}

void waiting_unwatch(const struct waitfd *w, int fd)
{
	if (fd >= 0)
		epoll_ctl(w->fd, EPOLL_CTL_DEL, fd, NULL);
}

void waiting_add(struct loop *l, int fd)
{
	if (l->waiting.fd)
		waiting_watch(l->waiting.fd, fd);
}

void waiting_remove(struct loop *l, int fd)
{
	if (!l->waiting.fd)
		return;
	waiting_unwatch(l->waiting.fd, fd);
	l->waiting.fd->rung = true; /* it may have been readable */
}
