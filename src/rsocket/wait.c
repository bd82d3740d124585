/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for rsockets. A thread that is about to sleep joins the rsocket's waiters, arms its CQ, and polls it once
 * more; a completion then wakes all waiters. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/fork.h"
#include "progress/poll.h"
#include "progress/wait.h"
#include "rsocket/attach.h"
#include "rsocket/datagram.h"

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

/* No analysis: it is called with the lock and without. The CQ is made once and stays as long as the rsocket. */
NO_LOCK_ANALYSIS void rsocket_arm(struct rsocket *rs)
{
	struct cq *cq = (struct cq *)rs->stream.cq;

	if (is_datagram(rs))
		datagram_arm(rs);
	if (cq)
		cq_request(cq, false);
}

/* ---- what a thread sleeps on ---- */

static _Thread_local int own_fd; /* less 1, so that 0 means none */
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

static void wait_make_key(void)
{
	static const struct fork_handlers handlers = {.in_child = forget_own};

	pthread_key_create(&key, close_own);
	fork_watch(FORK_RSOCKET_WAIT, &handlers);
}

int sleeper_fd(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (own_fd)
		return own_fd - 1;
	pthread_once(&once, wait_make_key);
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

/* ---- waiting for one ---- */

struct waiting {
	struct rsocket *rs;
	bool (*test)(struct rsocket *rs);
	bool attends; /* it is about a connection */
	struct attendant attendant;
	struct sleeper sleeper;
};

static void process(struct rsocket *rs) REQUIRES(rs->lock)
{
	if (is_datagram(rs))
		datagram_process(rs);
	else
		stream_process(rs);
}

static bool wait_done(void *arg)
{
	struct waiting *w = arg;
	bool is;

	if (w->attends)
		service_run();
	lock_take(&w->rs->lock);
	process(w->rs);
	is = w->test(w->rs);
	lock_drop(&w->rs->lock);
	return is;
}

static void wait_arm(void *arg)
{
	struct waiting *w = arg;

	sleeper_sleeps(w->rs, &w->sleeper);
	rsocket_arm(w->rs);
	if (w->attends)
		service_attendant_sleeps(&w->attendant);
}

/* Woken by the lock's release alone, the other thread would find it taken again, however often: one of the same
 * real-time priority runs only when we yield, and that is what a poll does from time to time, with the lock. */
void rsocket_progress(struct rsocket *rs)
{
	loop_progress();
	if (likely(!lock_is_wanted(&rs->lock)))
		return;
	lock_drop(&rs->lock);
	sched_yield();
	lock_take(&rs->lock);
}

uint64_t rsocket_until(int ms)
{
	return ms > 0 ? clock_now() + (uint64_t)ms * MSEC : NEVER;
}

/* Which handler has run nobody knows, so one that ends calls is enough. Faults interrupt none. */
bool rsocket_restarts(void)
{
	for (int n = 1; n < NSIG; n++) {
		struct sigaction a;

		if (n == SIGSEGV || n == SIGBUS || n == SIGFPE || n == SIGILL || n == SIGTRAP || n == SIGSYS ||
		    sigaction(n, NULL, &a))
			continue;
		if (a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN && !(a.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}

/* The end of a wait, of one that pthread_cancel(3) ends as well. */
static void wait_leave(void *arg)
{
	struct waiting *w = arg;

	rsocket_wait_remove(w->rs, &w->sleeper.waiter);
	if (w->attends)
		service_leave(&w->attendant);
}

/* A call that is cancelled does not come to the end, where it gives back its reference. */
static void wait_abandon(void *arg)
{
	struct waiting *w = arg;

	wait_leave(w);
	rsocket_put(w->rs);
}

int rsocket_await(struct rsocket *rs, bool (*test)(struct rsocket *rs), uint64_t until)
{
	struct waiting waiting = {
		.rs = rs, .test = test, .attends = rsocket_state(rs) != RS_CONNECTED && !is_datagram(rs)};
	struct loop_wait w = {.done = wait_done, .arm = wait_arm, .arg = &waiting, .until = until};
	struct pollfd udp = {.fd = rs->fd, .events = POLLIN};
	int result;

	process(rs);
	if (test(rs))
		return 0;
	w.wake = sleeper_fd();
	if (w.wake < 0)
		return w.wake;
	lock_drop(&rs->lock);
	sleeper_init(&waiting.sleeper, w.wake);
	rsocket_wait_add(rs, &waiting.sleeper.waiter);
	if (waiting.attends)
		service_attend(&waiting.attendant, w.wake);
	if (is_datagram(rs)) {
		w.fds = &udp;
		w.count = 1;
	}
	pthread_cleanup_push(wait_abandon, &waiting);
	do
		result = loop_wait_for(&w);
	while ((result > 0 && is_datagram(rs) &&
		!wait_done(&waiting)) || /* something came by UDP, and it is not that */
	       (result == -EINTR && until == NEVER && rsocket_restarts()));
	pthread_cleanup_pop(0);
	wait_leave(&waiting);
	lock_take(&rs->lock);
	return result > 0 ? 0 : result ?: -EAGAIN;
}

int rsocket_await_firmly(struct rsocket *rs, bool (*test)(struct rsocket *rs), uint64_t until)
{
	int before, result;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	result = rsocket_await(rs, test, until);
	pthread_setcancelstate(before, NULL);
	return result;
}
