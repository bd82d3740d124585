/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/helper.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/high_fd.h"
#include "base/log.h"
#include "host/callers.h"
#include "loop/control.h"
#include "loop/loop.h"
#include "memory/shareable.h"

int helper_control(struct helper *h, int op, enum source source, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.u64 = (uint64_t)source << 32 | (uint32_t)fd};

	return epoll_ctl(h->epoll, op, fd, &e) ? -errno : 0;
}

void helper_close(struct helper *h)
{
	callers_end();
	close(h->epoll);
	close(h->renew);
	close(h->kick);
	close(h->timer);
}

int helper_init(struct loop *l)
{
	struct helper *h = &l->helper;
	int err;

	lock_set_rank(&h->timer_lock, RANK_HELPER_TIMER);
	lock_set_rank(&h->renew_lock, RANK_HELPER_RENEW);
	lock_set_rank(&h->watch_lock, RANK_HELPER_WATCH);
	list_init(&h->watches);
	atomic_init(&h->timer_at, NEVER);
	h->epoll = high_fd(epoll_create1(EPOLL_CLOEXEC));
	h->kick = high_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	h->renew = high_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	h->timer = high_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (h->epoll < 0 || h->kick < 0 || h->renew < 0 || h->timer < 0)
		err = -errno;
	else
		err = helper_control(h, EPOLL_CTL_ADD, SOURCE_KICK, h->kick, EPOLLIN)
		      ?: helper_control(h, EPOLL_CTL_ADD, SOURCE_TIMER, h->timer, EPOLLIN)
		      ?: helper_control(h, EPOLL_CTL_ADD, SOURCE_SLOT, l->slot.fd, EPOLLIN);
	if (err)
		helper_close(h);
	else
		callers_begin();
	return err;
}

int helper_arm_port(struct helper *h, struct port *port)
{
	int err = helper_control(h, port->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, SOURCE_PORT, port->link->fd,
				 EPOLLIN | EPOLLONESHOT);

	port->watched |= !err;
	return err;
}

int helper_add(struct loop *l, struct port *port)
{
	int err;

	lock_take(&l->receive);
	err = helper_arm_port(&l->helper, port);
	lock_drop(&l->receive);
	return err;
}

int helper_serve(struct loop *l)
{
	if (l->steering.service < 0)
		return 0;
	return helper_control(&l->helper, EPOLL_CTL_ADD, SOURCE_SERVICE, l->steering.service, CALLERS_EVENTS);
}

int helper_watch_local(struct loop *l, int fd, bool input)
{
	bool listens = fd == l->local.listener;
	enum source source = listens ? SOURCE_LISTENER : SOURCE_CONNECTION;
	uint32_t events = listens ? CALLERS_EVENTS : EPOLLRDHUP | (input ? EPOLLIN : 0);
	int err = helper_control(&l->helper, EPOLL_CTL_ADD, source, fd, events);

	return err == -EEXIST ? helper_control(&l->helper, EPOLL_CTL_MOD, source, fd, events) : err;
}

static void signal_fd(int fd)
{
	uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void kick(struct helper *h)
{
	signal_fd(h->kick);
}

void helper_empty(int fd)
{
	uint64_t count;

	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

void helper_kick(struct loop *l)
{
	kick(&l->helper);
}

void helper_set_timer(struct helper *h, uint64_t when)
{
	/* a stale value is possible only before the helper's next exchange of the state: see helper_thread.c */
	if (atomic_load_explicit(&h->timer_at, memory_order_relaxed) <= when)
		return;
	lock_take(&h->timer_lock);
	if (atomic_load_explicit(&h->timer_at, memory_order_relaxed) > when) {
		struct itimerspec at = {.it_value = {when / SEC, when % SEC}};

		timerfd_settime(h->timer, TFD_TIMER_ABSTIME, &at, NULL);
		atomic_store_explicit(&h->timer_at, when, memory_order_relaxed);
	}
	lock_drop(&h->timer_lock);
}

void helper_timer_fired(struct helper *h)
{
	lock_take(&h->timer_lock);
	helper_empty(h->timer);
	atomic_store_explicit(&h->timer_at, NEVER, memory_order_relaxed);
	lock_drop(&h->timer_lock);
}

static enum helper_state read_state(struct helper *h)
{
	/* pairs with helper_enter(): a read-modify-write, see helper_thread.c */
	return atomic_fetch_add_explicit(&h->state, 0, memory_order_acq_rel);
}

void helper_enter(struct helper *h, enum helper_state state)
{
	atomic_exchange_explicit(&h->state, state, memory_order_acq_rel); /* pairs with read_state() */
}

uint32_t helper_drivers(struct helper *h)
{
	/* acquire pairs with the release in helper_leave(): a hint otherwise */
	return atomic_load_explicit(&h->drivers, memory_order_acquire);
}

void helper_deadline(struct loop *l, uint64_t when)
{
	if (read_state(&l->helper) != HELPER_GUARD)
		helper_set_timer(&l->helper, when);
}

void helper_ready(struct loop *l)
{
	/* In GUARD the helper looks soon. A thread in loop_wait() sends before it sleeps, or has the helper look when
	 * it leaves. */
	if (read_state(&l->helper) == HELPER_ARMED && !helper_drivers(&l->helper))
		helper_set_timer(&l->helper, clock_now() + READY_DELAY);
}

void helper_drive(struct loop *l)
{
	atomic_fetch_add_explicit(&l->helper.drivers, 1, memory_order_relaxed); /* a hint: a stale read does no harm */
}

void helper_leave(struct loop *l, uint64_t now)
{
	atomic_fetch_sub_explicit(&l->helper.drivers, 1, memory_order_release); /* pairs with helper_drivers() */
	helper_set_timer(&l->helper, now + LEAVE_LOOK);
}

uint32_t sleep_begin(struct loop *l)
{
	struct helper *h = &l->helper;
	uint32_t round;

	lock_take(&h->renew_lock);
	h->sleepers++;
	round = h->round;
	lock_drop(&h->renew_lock);
	return round;
}

void sleep_end(struct loop *l, uint32_t round)
{
	struct helper *h = &l->helper;

	lock_take(&h->renew_lock);
	h->sleepers--;
	if (round != h->round && --h->unaware == 0)
		helper_empty(h->renew);
	lock_drop(&h->renew_lock);
}

void sleep_renew(struct loop *l)
{
	struct helper *h = &l->helper;

	lock_take(&h->renew_lock);
	h->round++;
	h->unaware = h->sleepers;
	if (h->unaware)
		signal_fd(h->renew);
	lock_drop(&h->renew_lock);
}

void helper_flush(struct loop *l)
{
	struct helper *h = &l->helper;

	atomic_store_explicit(&h->flush, true, memory_order_release); /* pairs with serve_kick() */
	kick(h);
	for (int i = 0; i < 200 && has_ready(l); i++)
		nanosleep(&(struct timespec){.tv_nsec = 100 * USEC}, NULL);
}

void loop_say_no_thread(int error)
{
	log_error("the thread that connections need cannot be started: %s (%s)", strerror(error),
		  error == EAGAIN ? "allow this user or container more threads: ulimit -u, or its pids limit"
				  : "a sandbox has to allow clone and clone3");
}

int helper_start(struct loop *l)
{
	struct helper *h = &l->helper;
	sigset_t all, old;
	int err;

	if (h->running)
		return 0;
	if (!h->control.is_open && !control_open(&h->control))
		helper_control(h, EPOLL_CTL_ADD, SOURCE_CONTROL, h->control.listener, CALLERS_EVENTS);
	/* signals are for the application's threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&h->thread, NULL, h->main, l);
	if (!err)
		shareable_own_thread(1); /* here, as the helper may not run before the program registers memory */
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	h->running = !err;
	if (err)
		loop_say_no_thread(err);
	return -err;
}

void helper_fini(struct loop *l)
{
	struct helper *h = &l->helper;

	if (h->running) {
		atomic_store_explicit(&h->stop, true, memory_order_release); /* pairs with helper_main() */
		kick(h);
		pthread_join(h->thread, NULL);
	}
	list_each_safe (i, &h->watches)
		free(container_of(i, struct helper_watch, link));
	control_close(&h->control);
	helper_close(h);
}

static int add_watch(struct loop *l, int fd, void (*handler)(void *arg), void *arg)
{
	struct helper *h = &l->helper;
	struct helper_watch *w = malloc(sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	*w = (struct helper_watch){.fd = fd, .handler = handler, .arg = arg};
	lock_take(&h->watch_lock);
	list_append(&h->watches, &w->link);
	lock_drop(&h->watch_lock);
	err = helper_control(h, EPOLL_CTL_ADD, SOURCE_WATCH, fd, EPOLLIN);
	if (err)
		loop_unwatch(fd);
	return err;
}

int loop_watch(int fd, void (*handler)(void *arg), void *arg)
{
	struct loop *l = loop_hold();
	int err = l ? helper_start(l) : -ENODEV;

	if (!err)
		l->pins++;
	loop_release();
	if (err)
		return err;
	err = add_watch(l, fd, handler, arg); /* without loop_life: a handler that runs now may wait for it */
	loop_unpin(l);
	return err;
}

void loop_not_yet(void)
{
	/* relaxed: the caller is the helper */
	atomic_load_explicit(&loop_current, memory_order_relaxed)->helper.not_yet = true;
}

void loop_unwatch(int fd)
{
	/* acquire pairs with the release in loop_get() */
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_acquire);
	struct helper *h;

	if (!l)
		return;
	h = &l->helper;
	epoll_ctl(h->epoll, EPOLL_CTL_DEL, fd, NULL);
	lock_take(&h->watch_lock);
	list_each_safe (i, &h->watches) {
		struct helper_watch *w = container_of(i, struct helper_watch, link);

		if (w->fd == fd) {
			list_remove(&w->link);
			free(w);
		}
	}
	lock_drop(&h->watch_lock);
}
