/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/service.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/high_fd.h"
#include "base/hooks.h"
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
#include "rsocket/tuned.h"
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

/* Steps of the end of the process by _exit(2). */
static _Atomic enum { NO_END, END_ASKED, END_DONE } end;
static pid_t owner; /* process of the service thread */

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
		/* pairs with service_exit() */
		if (unlikely(atomic_load_explicit(&end, memory_order_acquire) == END_ASKED)) {
			closing_finish();
			atomic_store_explicit(&end, END_DONE, memory_order_release);
		}
	}
	return NULL;
}

/* As service_finish(), for _exit(2). The thread may be in a handler and hold any lock, so the service thread does it;
 * if it holds one that this takes, no ACK is noticed. */
static void service_exit(void)
{
	uint64_t start = clock_now();

	if (!attend_channel() || getpid() != owner)
		return;						      /* a child's, also of vfork(2) */
	atomic_store_explicit(&end, END_ASKED, memory_order_release); /* pairs with service_main() */
	attend_poke();
	while (atomic_load_explicit(&end, memory_order_acquire) != END_DONE &&
	       clock_now() < max_of(start, closing_last_moved()) + EXIT_TIME)
		nanosleep(&(struct timespec){.tv_nsec = EXIT_LOOK}, NULL);
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
	owner = getpid();
	atomic_store_explicit(&hook_exit, service_exit, memory_order_release); /* pairs with _exit() */
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
