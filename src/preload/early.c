/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/early.h"

#include <stdlib.h>

#include "base/list.h"
#include "preload/kind.h"

void epoll_nest(int fd)
{
	set_kind(fd, NESTED);
	if (&OPS)
		INSIDE((OPS.epoll_nest(fd), 0));
}

struct early {
	struct list link;
	int epfd, fd;
	struct epoll_event event;
};

/* Guards `early`. Not held around a fork: a child makes it anew. */
static struct lock early_lock = LOCK_RANKED(PRELOAD_EARLY);

static struct list early GUARDED_BY(early_lock) = {&early, &early};

static void drop_early(struct early *e) REQUIRES(early_lock)
{
	list_remove(&e->link);
	free(e);
}

void early_note(int epfd, int op, int fd, const struct epoll_event *event)
{
	struct early *e = NULL;

	lock_take(&early_lock);
	list_each (l, &early) {
		struct early *is = container_of(l, struct early, link);

		if (is->epfd == epfd && is->fd == fd)
			e = is;
	}
	if (op == EPOLL_CTL_DEL) {
		if (e)
			drop_early(e);
	} else {
		if (!e && (e = calloc(1, sizeof(*e))))
			list_append(&early, &e->link);
		if (e) {
			e->epfd = epfd;
			e->fd = fd;
			e->event = *event;
		}
	}
	lock_drop(&early_lock);
}

int epoll_add(int epfd, int fd, struct epoll_event *event)
{
	int err = INSIDE(OPS.epoll_ctl(epfd, EPOLL_CTL_ADD, fd, event));

	if (!err && kind_of(epfd) == NESTED)
		epoll_nest(epfd);
	return err;
}

void early_move(int fd)
{
	int error = errno;

	lock_take(&early_lock);
	list_each_safe (l, &early) {
		struct early *e = container_of(l, struct early, link);

		if (e->fd != fd)
			continue;
		NEXT(epoll_ctl)(e->epfd, EPOLL_CTL_DEL, fd, NULL);
		epoll_add(e->epfd, fd, &e->event);
		drop_early(e);
	}
	lock_drop(&early_lock);
	errno = error;
}

void early_forget(int fd)
{
	lock_take(&early_lock);
	list_each_safe (l, &early) {
		struct early *e = container_of(l, struct early, link);

		if (e->fd == fd || e->epfd == fd)
			drop_early(e);
	}
	lock_drop(&early_lock);
}

void early_forget_all(void)
{
	early_lock = (struct lock)LOCK_RANKED(PRELOAD_EARLY);
	list_init(&early);
}
