/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/poll.h"

#include <pthread.h>
#include <stdlib.h>

#include "progress/poll.h"
#include "progress/wait.h"
#include "rsocket/attend.h"
#include "rsocket/await.h"
#include "rsocket/cm_events.h"
#include "rsocket/datagram.h"
#include "rsocket/stream.h"
#include "rsocket/table.h"
#include "rsocket/tuned.h"
#include "rsocket/waiter.h"

/* One descriptor of the caller's. */
struct polled {
	struct rsocket *rs; /* NULL: an ordinary one. Has a reference */
	struct sleeper sleeper;
	uint32_t plain; /* index in poller.plain; NONE */
};
#define NONE UINT32_MAX

struct poller {
	struct pollfd *fds; /* the caller's */
	nfds_t count;
	struct polled *polled;
	struct pollfd *plain; /* the ordinary ones of them */
	uint32_t plains;
	struct attendant attendant;
	bool any_handed_back; /* an rsocket has become an ordinary descriptor: classify() again */
	bool any_given;	      /* an rsocket is given to a bridge */
	bool many;	      /* `polled` and `plain` are on the heap */
	sigset_t signals;     /* the thread's mask before */
};

short rsocket_events(struct rsocket *rs, short wanted)
{
	short events;

	lock_take(&rs->lock);
	events = is_datagram(rs) ? datagram_events(rs) : stream_events(rs);
	lock_drop(&rs->lock);
	return events & (wanted | POLLERR | POLLHUP | POLLNVAL);
}

/* How many are ready. */
static int check_rsockets(struct poller *p)
{
	int ready = 0;

	for (nfds_t i = 0; i < p->count; i++) {
		if (!p->polled[i].rs)
			continue;
		p->fds[i].revents = rsocket_events(p->polled[i].rs, p->fds[i].events);
		if (unlikely(p->fds[i].revents & POLLNVAL)) {
			p->any_handed_back |= rsocket_state(p->polled[i].rs) == RS_PLAIN;
			p->any_given |= rsocket_state(p->polled[i].rs) != RS_PLAIN;
		}
		ready += p->fds[i].revents != 0;
	}
	return ready;
}

static bool poll_done(void *arg)
{
	struct poller *p = arg;

	cm_events_run();
	return check_rsockets(p);
}

static void poll_arm(void *arg)
{
	struct poller *p = arg;

	for (nfds_t i = 0; i < p->count; i++)
		if (p->polled[i].rs) {
			sleeper_sleeps(p->polled[i].rs, &p->polled[i].sleeper);
			rsocket_arm(p->polled[i].rs);
		}
	attendant_sleeps(&p->attendant);
}

static void classify(struct poller *p)
{
	for (nfds_t i = 0; i < p->count; i++) {
		struct polled *at = &p->polled[i];

		p->fds[i].revents = 0;
		at->rs = p->fds[i].fd < 0 ? NULL : rsocket_get(p->fds[i].fd);
		if (at->rs && rsocket_state(at->rs) == RS_PLAIN) {
			rsocket_put(at->rs);
			at->rs = NULL;
		}
		at->plain = NONE;
		if (at->rs && is_datagram(at->rs)) /* datagrams by UDP wake the call, and are not reported */
			p->plain[p->plains++] = (struct pollfd){.fd = at->rs->fd, .events = POLLIN};
		if (at->rs && !at->rs->beneath)
			continue;
		at->plain = p->plains;
		p->plain[p->plains++] = p->fds[i];
	}
}

static void poll_join(struct poller *p, int fd)
{
	for (nfds_t i = 0; i < p->count; i++) {
		if (!p->polled[i].rs)
			continue;
		sleeper_init(&p->polled[i].sleeper, fd);
		rsocket_wait_add(p->polled[i].rs, &p->polled[i].sleeper.waiter);
	}
}

static void poll_leave(struct poller *p, bool joined)
{
	for (nfds_t i = 0; i < p->count; i++) {
		if (!p->polled[i].rs)
			continue;
		if (joined)
			rsocket_wait_remove(p->polled[i].rs, &p->polled[i].sleeper.waiter);
		rsocket_put(p->polled[i].rs);
	}
}

/* Fills all revents. How many are ready. */
static int poll_collect(struct poller *p)
{
	int ready = 0;

	if (p->plains)
		poll(p->plain, p->plains, 0);
	check_rsockets(p);
	for (nfds_t i = 0; i < p->count; i++) {
		if (p->polled[i].plain != NONE)
			p->fds[i].revents |= p->plain[p->polled[i].plain].revents;
		ready += p->fds[i].revents != 0;
	}
	return ready;
}

static void poller_free(struct poller *p)
{
	if (!p->many)
		return;
	free(p->polled);
	free(p->plain);
}

/* pthread_cancel(3) while it sleeps. */
static void poll_abandon(void *arg)
{
	struct poller *p = arg;

	attendant_leave(&p->attendant);
	pthread_sigmask(SIG_SETMASK, &p->signals, NULL);
	poll_leave(p, true);
	poller_free(p);
}

static int poll_sleep(struct poller *p, const struct loop_wait *w, int *ready)
{
	int result;

	poll_join(p, w->wake);
	attendant_join(&p->attendant, w->wake);
	pthread_cleanup_push(poll_abandon, p);
	do {
		result = loop_wait_for(w);
		*ready = poll_collect(p);
	} while (result > 0 && !*ready);
	pthread_cleanup_pop(0);
	attendant_leave(&p->attendant);
	return result;
}

static int poll_all(struct poller *p, uint64_t until)
{
	struct loop_wait w = {
		.done = poll_done, .arm = poll_arm, .arg = p, .fds = p->plain, .count = p->plains, .until = until};
	int ready, result;

	cm_events_run();
	ready = poll_collect(p);
	if (ready)
		return ready;
	if (until == 0) {
		loop_progress();
		cm_events_run();
		return poll_collect(p);
	}
	w.wake = sleeper_fd();
	if (w.wake < 0)
		return w.wake;
	loop_hold_signals(&p->signals);
	w.signals = &p->signals;
	result = poll_sleep(p, &w, &ready);
	pthread_sigmask(SIG_SETMASK, &p->signals, NULL);
	poll_leave(p, true);
	p->count = 0; /* rsocket_poll() leaves none again */
	return ready ?: result;
}

int rsocket_poll(struct pollfd *fds, nfds_t count, uint64_t until)
{
	struct polled few[POLL_FEW];
	struct pollfd few_plain[POLL_FEW];
	struct poller p = {.fds = fds, .count = count, .polled = few, .plain = few_plain, .many = count > POLL_FEW};
	int result;

	if (p.many) {
		p.polled = malloc(count * sizeof(*p.polled));
		p.plain = malloc(count * sizeof(*p.plain));
	}
	if (!p.polled || !p.plain) {
		result = -ENOMEM;
		goto out;
	}
	do {
		p.plains = 0;
		p.any_handed_back = false;
		p.count = count;
		classify(&p);
		result = poll_all(&p, until);
		poll_leave(&p, false);
	} while (result > 0 && p.any_handed_back && !p.any_given);
	if (p.any_given)
		result = -ESTALE;
out:
	poller_free(&p);
	return result;
}
