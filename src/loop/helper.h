/* SPDX-License-Identifier: BSD-2-Clause */
/* The helper thread, as other threads see it: its descriptors, its timer, requests to it, and sleeping threads. What it
 * does is in progress/helper_thread.c. */
#ifndef UROCE_LOOP_HELPER_H
#define UROCE_LOOP_HELPER_H

#include "loop/loop.h"
#include "loop/tuned.h"

/* Tells the helper that a QP was made ready. Any thread may call, with any lock. */
void helper_ready(struct loop *l);

/* Kinds of descriptors in the helper's epoll set; the upper half of epoll_data. */
enum source {
	SOURCE_PORT,
	SOURCE_TIMER,
	SOURCE_KICK,
	SOURCE_SLOT,
	SOURCE_SERVICE,
	SOURCE_LISTENER, /* of the local link */
	SOURCE_CONNECTION,
	SOURCE_DOORBELL,
	SOURCE_WATCH,
	SOURCE_CONTROL,
};

struct helper_watch {
	struct list link; /* guarded by watch_lock */
	int fd;
	void (*handler)(void *arg);
	void *arg;
};

/* Makes the descriptors: 0 or -errno. helper_fini(): stops the thread. */
int helper_init(struct loop *l);
void helper_fini(struct loop *l);
void helper_close(struct helper *h); /* in a child of fork(): closes the descriptors only */
/* Starts the helper thread if it does not run. 0 or -errno. */
int helper_start(struct loop *l);
/* Adds a port, the registry's service, to the helper's epoll set. 0 or -errno. */
int helper_add(struct loop *l, struct port *port);
int helper_serve(struct loop *l);
/* Watches a descriptor of the local link: for its end, and if `input`, for data too. A second call with another
 * `input` changes that. 0 or -errno. */
int helper_watch_local(struct loop *l, int fd, bool input);
/* Wakes the helper, which looks for work. */
void helper_kick(struct loop *l);
/* Tells the helper of a deadline, in ns, that is earlier than all others. */
void helper_deadline(struct loop *l, uint64_t when);
/* Has the helper send what is ready, at exit, and waits a short time for that. */
void helper_flush(struct loop *l);
/* Called before and after a thread receives in place of the helper. */
void helper_drive(struct loop *l);
void helper_leave(struct loop *l, uint64_t now);
/* Called before and after such a thread sleeps on the ports and on helper.renew. sleep_begin() returns the round for
 * sleep_end(). */
uint32_t sleep_begin(struct loop *l) REQUIRES(l->receive);
void sleep_end(struct loop *l, uint32_t round);
/* Wakes sleeping threads, as the ports have changed. */
void sleep_renew(struct loop *l) REQUIRES(l->receive);

/* Has the helper thread call handler(arg) whenever fd is readable, until loop_unwatch() returns. 0 or -errno. */
int loop_watch(int fd, void (*handler)(void *arg), void *arg);
void loop_unwatch(int fd);
/* Makes the helper pause before it calls a handler again: for a handler that can do nothing yet while its descriptor
 * stays readable. */
void loop_not_yet(void);
/* Logs why a thread cannot be started: an error of pthread_create(3). The application sees only that ibv_modify_qp(),
 * for example, fails, which does not name the cause. */
void loop_say_no_thread(int error);

/* ---- for the helper thread itself ---- */

int helper_control(struct helper *h, int op, enum source source, int fd, uint32_t events);
int helper_arm_port(struct helper *h, struct port *port);
void helper_set_timer(struct helper *h, uint64_t when);
void helper_timer_fired(struct helper *h);
void helper_enter(struct helper *h, enum helper_state state);
/* Number of threads that receive in place of the helper. A hint. */
uint32_t helper_drivers(struct helper *h);
/* Reads an eventfd or a timerfd. */
void helper_empty(int fd);

#endif
