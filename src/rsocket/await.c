/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/await.h"

#include <pthread.h>
#include <signal.h>

#include "base/yield.h"
#include "progress/poll.h"
#include "progress/wait.h"
#include "rsocket/attach.h"
#include "rsocket/attend.h"
#include "rsocket/arrivals.h"
#include "rsocket/cm_events.h"
#include "rsocket/flow.h"
#include "rsocket/table.h"
#include "rsocket/waiter.h"

/* No analysis: called with the lock and without. The CQ stays as long as the rsocket. */
NO_LOCK_ANALYSIS void rsocket_arm(struct rsocket *rs)
{
	struct cq *cq = (struct cq *)rs->stream.cq;

	if (is_datagram(rs))
		datagram_arm(rs);
	if (cq)
		cq_request(cq, false);
}

struct waiting {
	struct rsocket *rs;
	bool (*test)(struct rsocket *rs);
	bool attends; /* waits for a connection */
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
		cm_events_run();
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
		attendant_sleeps(&w->attendant);
}

/* Dropping the lock is not enough: the thread that waits for it would find it taken again. One of the same real-time
 * priority runs only when this one yields; a poll yields too, but with the lock. */
void rsocket_progress(struct rsocket *rs)
{
	loop_progress();
	if (likely(!lock_is_wanted(&rs->lock)))
		return;
	lock_drop(&rs->lock);
	processor_yield();
	lock_take(&rs->lock);
}

uint64_t rsocket_until(int ms)
{
	return ms > 0 ? clock_now() + (uint64_t)ms * MSEC : NEVER;
}

/* The handler that ran is not known, so each must have SA_RESTART, but for those of faults, which interrupt no call. */
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

static void wait_leave(void *arg)
{
	struct waiting *w = arg;

	rsocket_wait_remove(w->rs, &w->sleeper.waiter);
	if (w->attends)
		attendant_leave(&w->attendant);
}

/* The wait was cancelled: pthread_cancel(3). */
static void wait_abandon(void *arg)
{
	struct waiting *w = arg;

	wait_leave(w);
	rsocket_put(w->rs);
}

/* Drops the lock and sleeps until the test was true. 0 or -errno. */
static int await_once(struct rsocket *rs, bool (*test)(struct rsocket *rs), uint64_t until) REQUIRES(rs->lock)
{
	struct waiting waiting = {
		.rs = rs, .test = test, .attends = rsocket_state(rs) != RS_CONNECTED && !is_datagram(rs)};
	struct loop_wait w = {.done = wait_done, .arm = wait_arm, .arg = &waiting, .until = until};
	struct pollfd udp = {.fd = rs->fd, .events = POLLIN};
	int result;

	w.wake = sleeper_fd();
	if (w.wake < 0)
		return w.wake;
	lock_drop(&rs->lock);
	sleeper_init(&waiting.sleeper, w.wake);
	rsocket_wait_add(rs, &waiting.sleeper.waiter);
	if (waiting.attends)
		attendant_join(&waiting.attendant, w.wake);
	if (is_datagram(rs)) {
		w.fds = &udp;
		w.count = 1;
	}
	pthread_cleanup_push(wait_abandon, &waiting);
	do
		result = loop_wait_for(&w);
	while (result == -EINTR && until == NEVER && rsocket_restarts());
	pthread_cleanup_pop(0);
	wait_leave(&waiting);
	lock_take(&rs->lock);
	return result > 0 ? 0 : result ?: -EAGAIN;
}

/* Another thread of the program may have taken what this one was woken for: the test counts with the lock held. */
int rsocket_await(struct rsocket *rs, bool (*test)(struct rsocket *rs), uint64_t until)
{
	int err = 0;

	for (process(rs); !err && !test(rs); process(rs))
		err = await_once(rs, test, until);
	return err;
}

int rsocket_await_firmly(struct rsocket *rs, bool (*test)(struct rsocket *rs), uint64_t until)
{
	int before, result;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	result = rsocket_await(rs, test, until);
	pthread_setcancelstate(before, NULL);
	return result;
}

int rsocket_ready(struct rsocket *rs, bool (*test)(struct rsocket *rs), int flags, uint64_t until)
{
	stream_process(rs);
	if (test(rs))
		return 0;
	if (rsocket_waits(rs, flags))
		return rsocket_await(rs, test, until);
	if (rsocket_state(rs) != RS_CONNECTED) {
		lock_drop(&rs->lock);
		cm_events_run();
		lock_take(&rs->lock);
	}
	rsocket_progress(rs);
	stream_process(rs);
	return test(rs) ? 0 : -EAGAIN;
}
