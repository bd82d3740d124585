/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/service.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/high_fd.h"
#include "check/scope.h"
#include "loop/helper.h"
#include "rsocket/attend.h"
#include "rsocket/await.h"
#include "rsocket/closing.h"
#include "rsocket/cm_events.h"
#include "rsocket/flow.h"
#include "rsocket/peers.h"
#include "rsocket/table.h"
#include "rsocket/timeout.h"
#include "rsocket/waiter.h"

static struct lock make_lock = LOCK_RANKED(SERVICE_MAKE); /* held while the channel is made */

/* Sends a keepalive: a WRITE of no bytes, for its ACK. Or ends a connection attempt. */
static void time_out(struct rsocket *rs)
{
	lock_take(&rs->lock);
	stream_process(rs);
	if (rsocket_state(rs) == RS_CONNECTED && rs->stream.controls < RS_GRANTS) {
		stream_post_control(rs, NULL, 0, IBV_WR_RDMA_WRITE, 0, 0, 0, 0);
		rsocket_arm(rs);
	}
	if (rsocket_state(rs) < RS_CONNECTED) {
		peer_was_silent((struct sockaddr *)&rs->peer);
		rsocket_failed(rs, ETIMEDOUT);
	}
	lock_drop(&rs->lock);
	rsocket_wake(rs);
}

/* ms until the next is due; -1: none. */
static int time_out_all(void)
{
	uint64_t now = clock_now(), next;
	struct rsocket *rs;

	while ((rs = timeout_due(now, &next))) {
		time_out(rs);
		rsocket_put(rs);
	}
	return next == NEVER ? -1 : (int)min_of((next - now) / MSEC + 1, (uint64_t)INT_MAX);
}

static void *service_main(void *poke)
{
	struct pollfd p = {.fd = (int)(intptr_t)poke, .events = POLLIN};

	pthread_setname_np(pthread_self(), "uroce-rsocket");
	for (int ms = -1;; ms = time_out_all()) {
		eventfd_t count;

		if (poll(&p, 1, ms) < 0)
			continue;
		if (p.revents)
			eventfd_read(p.fd, &count);
		if (!attendants_are_there())
			cm_events_run();
		closing_run();
	}
	return NULL;
}

static void service_finish(void)
{
	if (!attend_channel())
		return; /* a child's */
	closing_finish();
	cm_events_stop(); /* exit() is about to free what it uses */
}

/* 0 or errno. */
static int service_start(int poke)
{
	static bool finishes; /* a child has its parent's handler */
	sigset_t all, old;
	pthread_t thread;
	int error;

	/* signals are for the program's threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&thread, NULL, service_main, (void *)(intptr_t)poke);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error) {
		loop_say_no_thread(error);
		return ENOMEM; /* EAGAIN of a socket means: try again */
	}
	pthread_detach(thread);
	if (!finishes)
		finishes = !atexit(service_finish);
	return 0;
}

static void service_in_child(void)
{
	attend_in_child();
	timeout_in_child();
	closing_in_child();
	cm_events_in_child();
}

static void service_watch_forks(void)
{
	static const struct fork_handlers handlers = {.in_child = service_in_child};

	fork_watch(FORK_RSOCKET_SERVICE, &handlers);
}

static struct rdma_event_channel *service_make(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct rdma_event_channel *ch;
	int poke, error;

	check_pause();
	ch = rdma_create_event_channel();
	check_resume();
	pthread_once(&once, service_watch_forks);
	if (!ch)
		return NULL;
	poke = high_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	error = poke < 0 || fcntl(ch->fd, F_SETFL, O_NONBLOCK) ? errno : service_start(poke);
	if (!error) {
		attend_open(ch, poke);
		return ch;
	}
	if (poke >= 0)
		close(poke);
	rdma_destroy_event_channel(ch);
	errno = error;
	return NULL;
}

struct rdma_event_channel *service_channel(void)
{
	struct rdma_event_channel *ch;

	lock_take(&make_lock);
	ch = attend_channel() ?: service_make();
	lock_drop(&make_lock);
	return ch;
}
