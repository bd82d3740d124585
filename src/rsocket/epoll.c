/* SPDX-License-Identifier: BSD-2-Clause */
/* epoll(7) for rsockets, on an ordinary epoll instance that still serves ordinary descriptors.
 *
 * A change of an rsocket queues its items. A wait checks queued items only: one that is ready is reported, and stays
 * queued if it is level-triggered; one that is not ready is armed and leaves the queue.
 *
 * The ordinary instance has an eventfd, which wakes threads that began to wait there before it had rsockets, and those
 * that wait for the instance itself. The data of its events are WAKE. */
#include "rsocket/epoll.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/fork.h"
#include "progress/poll.h"
#include "progress/wait.h"
#include "rsocket/attach.h"
#include "rsocket/attend.h"
#include "rsocket/await.h"
#include "rsocket/cm_events.h"
#include "rsocket/poll.h"
#include "rsocket/table.h"
#include "rsocket/waiter.h"

#define MOST_FDS 65536
#define WAKE	 ((void *)instances)

static struct lock items_lock = LOCK_RANKED(EPOLL_ITEMS);

struct instance {
	int epfd, wake; /* `wake`: an eventfd, written when an item is queued and a thread sleeps */
	struct list items GUARDED_BY(items_lock);
	struct lock lock; /* guards what follows, and item.queued */
	struct list ready GUARDED_BY(&lock);
	uint32_t sleepers GUARDED_BY(&lock);
	/* The instance itself is polled: the eventfd is readable while an item is queued. Relaxed: set before that. */
	_Atomic bool nested;
};

/* An rsocket in an instance. */
struct item {
	struct waiter waiter;
	struct list in_instance GUARDED_BY(items_lock), of_rsocket GUARDED_BY(items_lock);
	struct list queued, again; /* `again`: of the collecting thread, while the item is reported */
	struct instance *instance;
	struct rsocket *rs; /* has a reference */
	int fd;
	struct epoll_event event;
	bool disabled; /* EPOLLONESHOT has fired */
	bool beneath;  /* the ordinary descriptor is in the instance as well */
	bool anew;     /* to be queued again after the item is reported */
};

static _Atomic(struct instance *) instances[MOST_FDS];

static struct instance *instance_of(int epfd)
{
	/* acquire pairs with the release in epoll_make() */
	return (unsigned)epfd < MOST_FDS ? atomic_load_explicit(&instances[epfd], memory_order_acquire) : NULL;
}

bool rsocket_epoll_is(int epfd)
{
	return instance_of(epfd);
}

static void epoll_in_child(void)
{
	for (int i = 0; i < MOST_FDS; i++)
		if (atomic_load_explicit(&instances[i], memory_order_relaxed))
			atomic_store_explicit(&instances[i], NULL, memory_order_relaxed);
}

static void epoll_watch_forks(void)
{
	static const struct fork_handlers handlers = {.in_child = epoll_in_child};

	fork_watch(FORK_RSOCKET_EPOLL, &handlers);
}

static struct instance *epoll_make(int epfd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct instance *in;

	pthread_once(&once, epoll_watch_forks);
	if ((unsigned)epfd >= MOST_FDS)
		return NULL;
	in = calloc(1, sizeof(*in));
	if (!in)
		return NULL;
	lock_set_rank(&in->lock, RANK_EPOLL);
	in->epfd = epfd;
	in->wake = high_fd(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
	list_init(&in->items);
	list_init(&in->ready);
	atomic_store_explicit(&instances[epfd], in, memory_order_release); /* pairs with instance_of() */
	epoll_ctl(epfd, EPOLL_CTL_ADD, in->wake, &(struct epoll_event){.events = EPOLLIN, .data.ptr = WAKE});
	return in;
}

/* ---- the queue ---- */

static void enqueue(struct item *i)
{
	struct instance *in = i->instance;

	lock_take(&in->lock);
	if (list_empty(&i->queued))
		list_append(&in->ready, &i->queued);
	if (in->sleepers || atomic_load_explicit(&in->nested, memory_order_relaxed))
		eventfd_write(in->wake, 1);
	lock_drop(&in->lock);
}

static void wake(struct waiter *w)
{
	enqueue(container_of(w, struct item, waiter));
}

static struct item *dequeue(struct instance *in)
{
	struct list *l;

	lock_take(&in->lock);
	l = list_pop(&in->ready);
	lock_drop(&in->lock);
	return l ? container_of(l, struct item, queued) : NULL;
}

static bool has_queued(struct instance *in)
{
	bool has;

	lock_take(&in->lock);
	has = !list_empty(&in->ready);
	lock_drop(&in->lock);
	return has;
}

/* ---- items ---- */

static struct item *epoll_find(struct instance *in, int fd, struct rsocket *rs) REQUIRES(items_lock)
{
	list_each (l, &rs->epolls) {
		struct item *i = container_of(l, struct item, of_rsocket);

		if (i->instance == in && i->fd == fd)
			return i;
	}
	return NULL;
}

static void remove_item(struct item *i) REQUIRES(items_lock)
{
	rsocket_wait_remove(i->rs, &i->waiter);
	list_remove(&i->in_instance);
	list_remove(&i->of_rsocket);
	lock_take(&i->instance->lock);
	list_remove(&i->queued);
	lock_drop(&i->instance->lock);
	rsocket_put(i->rs);
	free(i);
}

static int epoll_add(struct instance *in, int fd, const struct epoll_event *event, struct rsocket *rs)
	REQUIRES(items_lock)
{
	struct item *i = calloc(1, sizeof(*i));

	if (!i)
		return -ENOMEM;
	if (rs->beneath) {
		if (epoll_ctl(in->epfd, EPOLL_CTL_ADD, fd, (struct epoll_event *)event)) {
			free(i);
			return -errno;
		}
		i->beneath = true;
	}
	i->waiter.wake = wake;
	list_init(&i->waiter.link);
	list_init(&i->queued);
	list_init(&i->again);
	i->instance = in;
	i->rs = rs;
	i->fd = fd;
	i->event = *event;
	rsocket_ref(rs);
	list_append(&in->items, &i->in_instance);
	list_append(&rs->epolls, &i->of_rsocket);
	rsocket_wait_add(rs, &i->waiter);
	enqueue(i);
	return 0;
}

static int change(struct item *i, int op, const struct epoll_event *event) REQUIRES(items_lock)
{
	if (i->beneath)
		epoll_ctl(i->instance->epfd, op, i->fd, (struct epoll_event *)event);
	if (op == EPOLL_CTL_DEL) {
		remove_item(i);
		return 0;
	}
	i->event = *event;
	i->disabled = false;
	enqueue(i);
	return 0;
}

int rsocket_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct rsocket *rs = rsocket_get(fd);
	struct instance *in;
	struct item *i;
	int err = -EBADF;

	if (!rs)
		return err;
	lock_take(&items_lock);
	in = instance_of(epfd) ?: epoll_make(epfd);
	if (!in) {
		err = -ENOMEM;
		goto out;
	}
	i = epoll_find(in, fd, rs);
	if (op == EPOLL_CTL_ADD)
		err = i ? -EEXIST : epoll_add(in, fd, event, rs);
	else
		err = i ? change(i, op, event) : -ENOENT;
out:
	lock_drop(&items_lock);
	rsocket_put(rs);
	return err;
}

void rsocket_epoll_forget(struct rsocket *rs)
{
	lock_take(&items_lock);
	list_each_safe (l, &rs->epolls)
		remove_item(container_of(l, struct item, of_rsocket));
	lock_drop(&items_lock);
}

void rsocket_epoll_close(int epfd)
{
	struct instance *in = instance_of(epfd);

	if (!in)
		return;
	atomic_store_explicit(&instances[epfd], NULL,
			      memory_order_relaxed); /* no other thread uses it while it is closed */
	lock_take(&items_lock);
	list_each_safe (l, &in->items)
		remove_item(container_of(l, struct item, in_instance));
	lock_drop(&items_lock);
	close(in->wake);
	free(in);
}

/* ---- waiting ---- */

struct waiting {
	struct instance *in;
	struct epoll_event *events;
	int max, got;
	bool sleeps;
	sigset_t signals; /* the thread's mask before */
	struct attendant attendant;
};

static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLERR == EPOLLERR && POLLHUP == EPOLLHUP &&
		      POLLRDHUP == EPOLLRDHUP,
	      "rsocket_events() serves both");

/* The rsocket has become an ordinary socket: rsocket_try_connect(), rsocket_hand_back(). */
static void hand_back(struct item *i) REQUIRES(items_lock)
{
	if (i->disabled)
		i->event.events = EPOLLONESHOT;
	epoll_ctl(i->instance->epfd, EPOLL_CTL_ADD, i->fd, &i->event);
	remove_item(i);
}

void rsocket_epoll_hand_back(struct rsocket *rs, int fd)
{
	lock_take(&items_lock);
	list_each_safe (l, &rs->epolls) {
		struct item *i = container_of(l, struct item, of_rsocket);

		if (i->fd == fd)
			hand_back(i);
	}
	lock_drop(&items_lock);
}

/* For an item that has left the queue: events to report, 0 none. */
static uint32_t epoll_check(struct item *i) REQUIRES(items_lock)
{
	uint32_t events;

	if (i->disabled)
		return 0;
	events = (uint32_t)(unsigned short)rsocket_events(i->rs, (short)i->event.events);
	if (events & POLLNVAL)
		return 0; /* hand_back() follows */
	if (events)
		return events;
	rsocket_arm(i->rs);
	return (uint32_t)(unsigned short)rsocket_events(i->rs, (short)i->event.events) & ~(uint32_t)POLLNVAL;
}

static void epoll_collect(struct waiting *w)
{
	struct list again;
	struct item *i;

	list_init(&again);
	lock_take(&items_lock);
	while (w->got < w->max && (i = dequeue(w->in))) {
		uint32_t events;

		if (!list_empty(&i->again)) {
			i->anew = true; /* changed since it was reported */
			continue;
		}
		if (rsocket_state(i->rs) == RS_PLAIN) {
			hand_back(i);
			continue;
		}
		events = epoll_check(i);
		if (!events)
			continue;
		w->events[w->got++] = (struct epoll_event){.events = events, .data = i->event.data};
		i->disabled = i->event.events & EPOLLONESHOT;
		i->anew = !(i->event.events & (EPOLLONESHOT | EPOLLET));
		list_append(&again, &i->again);
		if (i->event.events & EPOLLET)
			rsocket_arm(i->rs);
	}
	for (struct list *l; (l = list_pop(&again));) {
		i = container_of(l, struct item, again);
		if (i->anew)
			enqueue(i);
	}
	lock_drop(&items_lock);
}

int rsocket_epoll_strip(struct epoll_event *events, int n)
{
	int left = 0;

	for (int k = 0; k < n; k++)
		if (events[k].data.ptr != WAKE)
			events[left++] = events[k];
	return left;
}

static void epoll_silence(struct instance *in)
{
	eventfd_t count;

	eventfd_read(in->wake, &count); /* not blocking */
}

static void collect_plain(struct waiting *w)
{
	struct epoll_event *to = w->events + w->got;
	int n = w->got < w->max ? epoll_wait(w->in->epfd, to, w->max - w->got, 0) : 0, left;

	if (n <= 0)
		return;
	left = rsocket_epoll_strip(to, n);
	if (left < n)
		epoll_silence(w->in);
	w->got += left;
}

static bool epoll_done(void *arg)
{
	struct waiting *w = arg;

	cm_events_run();
	if (!w->got && has_queued(w->in)) /* reported items may be queued again, for the next call */
		epoll_collect(w);
	return w->got;
}

static void set_sleeping(struct waiting *w, bool sleeps)
{
	struct instance *in = w->in;

	lock_take(&in->lock);
	in->sleepers += (uint32_t)sleeps - (uint32_t)w->sleeps;
	w->sleeps = sleeps;
	if (in->sleepers && !list_empty(&in->ready)) /* wakes this thread, or another that sleeps still */
		eventfd_write(in->wake, 1);
	lock_drop(&in->lock);
}

static void epoll_arm(void *arg)
{
	struct waiting *w = arg;

	set_sleeping(w, true);
	attendant_sleeps(&w->attendant);
}

/* Without sleeping. How many are ready. */
static int epoll_look(struct waiting *w)
{
	loop_progress();
	epoll_done(w);
	collect_plain(w);
	return w->got;
}

/* pthread_cancel(3) while it sleeps. */
static void epoll_abandon(void *arg)
{
	struct waiting *w = arg;

	if (w->sleeps)
		set_sleeping(w, false);
	attendant_leave(&w->attendant);
	pthread_sigmask(SIG_SETMASK, &w->signals, NULL);
}

static int epoll_sleep(struct waiting *w, const struct loop_wait *l)
{
	int result;

	attendant_join(&w->attendant, l->wake);
	pthread_cleanup_push(epoll_abandon, w);
	do {
		result = loop_wait_for(l);
		set_sleeping(w, false);
		epoll_done(w);
		collect_plain(w);
	} while (result > 0 && !w->got);
	pthread_cleanup_pop(0);
	attendant_leave(&w->attendant);
	return result;
}

static int epoll_wait_until(struct waiting *w, uint64_t until)
{
	struct pollfd plain = {.fd = w->in->epfd, .events = POLLIN};
	struct loop_wait l = {.done = epoll_done,
			      .arm = epoll_arm,
			      .arg = w,
			      .wake = w->in->wake,
			      .fds = &plain,
			      .count = 1,
			      .until = until,
			      .signals = &w->signals};
	int result = 1;

	loop_hold_signals(&w->signals);
	if (!epoll_look(w))
		result = epoll_sleep(w, &l);
	pthread_sigmask(SIG_SETMASK, &w->signals, NULL);
	return w->got ?: result;
}

/* Makes the eventfd readable if an item is queued, else not. */
static void show(struct instance *in)
{
	lock_take(&in->lock);
	if (list_empty(&in->ready))
		epoll_silence(in);
	else
		eventfd_write(in->wake, 1);
	lock_drop(&in->lock);
}

int rsocket_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	struct waiting w = {.in = instance_of(epfd), .events = events, .max = max};
	int result;

	if (max <= 0)
		return -EINVAL;
	result = timeout ? epoll_wait_until(&w, timeout < 0 ? NEVER : rsocket_until(timeout)) : epoll_look(&w);
	if (unlikely(atomic_load_explicit(&w.in->nested, memory_order_relaxed)))
		show(w.in);
	return result;
}

void rsocket_epoll_nest(int epfd)
{
	struct instance *in = instance_of(epfd);
	struct list ready;
	struct item *i;

	if (!in)
		return;
	list_init(&ready);
	lock_take(&items_lock);
	atomic_store_explicit(&in->nested, true, memory_order_relaxed);
	while ((i = dequeue(in)))
		if (rsocket_state(i->rs) == RS_PLAIN)
			hand_back(i);
		else if (epoll_check(i) && list_empty(&i->again))
			list_append(&ready, &i->again);
	for (struct list *l; (l = list_pop(&ready));)
		enqueue(container_of(l, struct item, again));
	lock_drop(&items_lock);
	show(in);
}
