/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/waiter.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/high_fd.h"

void rsocket_wait_add(struct rsocket *rs, struct waiter *w)
{
	lock_take(&rs->wait_lock);
	list_append(&rs->waiters, &w->link);
	lock_drop(&rs->wait_lock);
}

void rsocket_wait_remove(struct rsocket *rs, struct waiter *w)
{
	lock_take(&rs->wait_lock);
	list_remove(&w->link);
	lock_drop(&rs->wait_lock);
}

void rsocket_wake(struct rsocket *rs)
{
	lock_take(&rs->wait_lock);
	list_each_safe (l, &rs->waiters) {
		struct waiter *w = container_of(l, struct waiter, link);

		w->wake(w);
	}
	lock_drop(&rs->wait_lock);
}

void rsocket_notify(struct cq *cq)
{
	rsocket_wake(cq->base.cq_context);
}

/* ---- sleepers ---- */

static _Thread_local int own_fd; /* an eventfd plus 1; 0: none */
static pthread_key_t key;

static void close_own(void *value)
{
	close((int)(intptr_t)value - 1);
	own_fd = 0;
}

static void forget_own(void)
{
	if (own_fd)
		close(own_fd - 1); /* it is shared with the parent */
	own_fd = 0;
	pthread_setspecific(key, NULL);
}

static void make_key(void)
{
	static const struct fork_handlers handlers = {.in_child = forget_own};

	pthread_key_create(&key, close_own);
	fork_watch(FORK_RSOCKET_WAITER, &handlers);
}

int sleeper_fd(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (own_fd)
		return own_fd - 1;
	pthread_once(&once, make_key);
	own_fd = high_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) + 1;
	if (!own_fd)
		return -errno;
	pthread_setspecific(key, (void *)(intptr_t)own_fd);
	return own_fd - 1;
}

static void wake_sleeper(struct waiter *w)
{
	struct sleeper *s = container_of(w, struct sleeper, waiter);

	if (s->sleeps)
		eventfd_write(s->fd, 1);
	s->sleeps = false;
}

void sleeper_sleeps(struct rsocket *rs, struct sleeper *s)
{
	lock_take(&rs->wait_lock);
	s->sleeps = true;
	lock_drop(&rs->wait_lock);
}

void sleeper_init(struct sleeper *s, int fd)
{
	s->fd = fd;
	s->sleeps = false;
	s->waiter.wake = wake_sleeper;
	list_init(&s->waiter.link);
}
