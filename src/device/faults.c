/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/faults.h"

#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/high_fd.h"
#include "base/hooks.h"
#include "base/lock.h"
#include "base/log.h"
#include "device/device_list.h"
#include "device/monitor.h"
#include "fault/inject.h"
#include "loop/helper.h"
#include "port/faults.h"

#define PENDING 64

/* An action that is due at a time. */
struct pending {
	uint64_t at;	    /* ns; 0: free */
	uint8_t action;	    /* enum rule_action; RULE_ACTIONS: rules of time are due */
	bool ends;	    /* true: ends the action's effect */
	int pid;	    /* DO_STOP */
	const char *device; /* "": all */
};

static struct lock pending_lock = LOCK_RANKED(PENDING_FAULTS);
static struct pending pending[PENDING] GUARDED_BY(pending_lock);
static int timer_fd GUARDED_BY(pending_lock) = -1;
static uint32_t users GUARDED_BY(pending_lock); /* number of open devices */

/* Sets the timer for the earliest action. Without a timer, actions wait for faults_begin(). */
static void set_pending_timer(void) REQUIRES(pending_lock)
{
	uint64_t first = NEVER;
	struct itimerspec when;

	for (unsigned i = 0; i < PENDING; i++)
		if (pending[i].at)
			first = min_of(first, pending[i].at);
	if (timer_fd < 0 || first == NEVER)
		return;
	when = (struct itimerspec){.it_value = {(time_t)(first / SEC), (long)(first % SEC)}};
	timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void add_pending(const struct pending *p)
{
	lock_take(&pending_lock);
	for (unsigned i = 0; i < PENDING; i++)
		if (!pending[i].at) {
			pending[i] = *p;
			break;
		}
	set_pending_timer();
	lock_drop(&pending_lock);
}

static void act_later(const struct inject_verdict *verdict)
{
	struct pending p = {.at = clock_now(), .action = verdict->action, .device = verdict->device};

	add_pending(&p);
	p.at += verdict->value[0];
	p.ends = true;
	if ((verdict->action == DO_PORT_DOWN || verdict->action == DO_GID_GONE) && verdict->value[0] != UINT64_MAX)
		add_pending(&p);
}

static void resume_later(int pid, uint64_t after)
{
	add_pending(&(struct pending){.at = clock_now() + after, .action = DO_STOP, .ends = true, .pid = pid});
}

static void do_pending(const struct pending *p, uint64_t now)
{
	if (p->action == RULE_ACTIONS) {
		inject_expire(now);
	} else if (p->action == DO_STOP) {
		kill(p->pid, SIGCONT);
	} else {
		inject_set(p->action, p->device, !p->ends);
		monitor_renew();
	}
}

/* Takes the earliest action that is due. False if none is. */
static bool take_pending(struct pending *due, uint64_t now)
{
	unsigned first = PENDING;

	lock_take(&pending_lock);
	for (unsigned i = 0; i < PENDING; i++)
		if (pending[i].at && pending[i].at <= now && (first == PENDING || pending[i].at < pending[first].at))
			first = i;
	if (first < PENDING) {
		*due = pending[first];
		pending[first].at = 0;
	} else {
		set_pending_timer();
	}
	lock_drop(&pending_lock);
	return first < PENDING;
}

static void handle_pending(void *arg)
{
	struct pending due;
	uint64_t times, now = clock_now();

	if (read((int)(intptr_t)arg, &times, sizeof(times)) < 0)
		return; /* timer set anew meanwhile */
	while (take_pending(&due, now))
		do_pending(&due, now);
}

/* Makes the timer and watches it before timer_fd is set, so that no other thread closes it meanwhile. */
static void make_timer(void)
{
	int fd = high_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	bool taken = false;

	if (fd < 0 || loop_watch(fd, handle_pending, (void *)(intptr_t)fd)) {
		log_error("faults of ports and devices have no effect: their timer cannot be started");
	} else {
		lock_take(&pending_lock);
		taken = users && timer_fd < 0;
		if (taken)
			timer_fd = fd;
		set_pending_timer();
		lock_drop(&pending_lock);
		if (!taken)
			loop_unwatch(fd);
	}
	if (fd >= 0 && !taken)
		close(fd);
}

/* Makes the timer if there are rules and an open device. */
static void need_timer(void)
{
	bool needed;

	lock_take(&pending_lock);
	needed = users && timer_fd < 0 && hook_is_on(HOOK_FAULT);
	lock_drop(&pending_lock);
	if (needed)
		make_timer();
}

static void expire_at(uint64_t when)
{
	if (when != NEVER)
		add_pending(&(struct pending){.at = when, .action = RULE_ACTIONS});
	need_timer();
}

static bool has_device(const char *name)
{
	return device_named(name);
}

int faults_read(void)
{
	static const struct inject_ops ops = {act_later, resume_later, expire_at, has_device, faults_renew_lanes};

	inject_serve(&ops);
	return inject_start();
}

void faults_begin(void)
{
	lock_take(&pending_lock);
	users++;
	lock_drop(&pending_lock);
	need_timer();
}

void faults_end(void)
{
	int fd = -1;

	lock_take(&pending_lock);
	if (!--users) {
		fd = timer_fd;
		timer_fd = -1;
	}
	lock_drop(&pending_lock);
	if (fd < 0)
		return;
	loop_unwatch(fd); /* waits for the handler, which takes the lock */
	close(fd);
}
