/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits for events: lost events, unarmed CQs, and missing acknowledgements. */
#include "check/events.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "check/finding.h"
#include "check/objects.h"
#include "check/queues.h"
#include "check/scope.h"
#include "check/stack.h"
#include "check/tuned.h"
#include "object/cq.h"

/* Notes that an event was fetched. None follows until the CQ is armed again. */
void check_fetched(const struct ibv_cq *cq)
{
	struct object *o;

	if (check_is_paused())
		return;
	lock_take(&objects_lock);
	o = object_find(CHECK_CQ, cq);
	if (o && o->watch) {
		o->watch->armed = false;
		o->watch->by = pthread_self();
	}
	lock_drop(&objects_lock);
}

/* A CQ of the channel, if none of its CQs is armed; else NULL. Another thread may arm them, so this thread must be
 * the last that used each of them. */
static const struct object *find_unarmed(const struct ibv_comp_channel *channel) REQUIRES(objects_lock)
{
	const struct object *found = NULL;

	for (const struct object *o = objects_next(NULL); o; o = objects_next(o)) {
		if (o->kind != CHECK_CQ || o->uses[1] != channel || !o->watch)
			continue;
		if (o->watch->armed || cq_arm(o->object) != CQ_UNARMED || !pthread_equal(o->watch->by, pthread_self()))
			return NULL;
		found = o;
	}
	return found;
}

void check_blocks(const struct ibv_comp_channel *channel)
{
	struct finding f = {.class = CHECK_HABITS,
			    .name = "never-armed",
			    .remedy = "call ibv_req_notify_cq() before the wait, each time: it asks for one event",
			    .text = "the wait for an event of a channel none of whose completion queues is armed: none "
				    "will come",
			    .at = {{"waits", NULL}, {"a completion queue of it was created", NULL}}};
	const struct object *o;

	if (check_is_paused() || !check_wants(CHECK_HABITS))
		return;
	lock_take(&objects_lock);
	o = find_unarmed(channel);
	f.at[1].stack = o ? o->made : NULL;
	lock_drop(&objects_lock);
	if (!f.at[1].stack)
		return;
	f.at[0].stack = stack_here();
	finding_report(&f);
}

/* ---- lost wake-ups ---- */

/* Events that wait to be fetched. Other threads may change them, in which case any number will do. */
__attribute__((no_sanitize("thread"))) static uint32_t events_waiting(const struct ibv_comp_channel *channel)
	REQUIRES(objects_lock)
{
	uint32_t count = 0;

	for (const struct object *o = objects_next(NULL); o; o = objects_next(o))
		if (o->kind == CHECK_CQ && o->uses[1] == channel)
			count += ((const struct cq *)o->object)->events;
	return count;
}

void check_arms(const struct ibv_cq *cq, bool solicited, const struct stack *armed)
{
	struct object *o;
	struct watch *w;

	lock_take(&objects_lock);
	o = object_find(CHECK_CQ, cq);
	w = o ? o->watch : NULL;
	if (w) {
		w->armed = true;
		w->armed_at = armed;
		w->by = pthread_self();
		w->is_late = !check_is_through && !solicited && w->polled && o->uses[1] &&
			     !cq_looks_empty((const struct cq *)cq) && !events_waiting(o->uses[1]);
	}
	lock_drop(&objects_lock);
}

/* The stack of the arming if completions came before it that nothing has polled, and if no other thread uses the CQ,
 * which might poll them. uroce tells of them, as most adapters do, so there is one event; IBTA 11.4.2.2 requires
 * none. */
static const struct stack *find_late(const struct ibv_comp_channel *channel) REQUIRES(objects_lock)
{
	for (const struct object *o = objects_next(NULL); o; o = objects_next(o)) {
		const struct watch *w = o->watch;

		if (o->kind == CHECK_CQ && o->uses[1] == channel && w && w->armed && w->is_late &&
		    pthread_equal(w->by, pthread_self()) && pthread_equal(w->polled_by, pthread_self()))
			return events_waiting(channel) <= 1 ? w->armed_at : NULL;
	}
	return NULL;
}

/* True if an epoll set of this process has the descriptor, so that the program knows that there is an event. */
static bool is_polled_by_epoll(int fd)
{
	DIR *all = opendir("/proc/self/fdinfo");
	char path[64], line[128];
	bool found = false;
	FILE *info;
	int other;

	for (const struct dirent *d; all && !found && (d = readdir(all));) {
		snprintf(path, sizeof(path), "/proc/self/fdinfo/%.10s", d->d_name);
		info = *d->d_name == '.' ? NULL : fopen(path, "re");
		while (info && !found && fgets(line, sizeof(line), info))
			found = sscanf(line, "tfd: %d", &other) == 1 && other == fd;
		if (info)
			fclose(info);
	}
	if (all)
		closedir(all);
	return found;
}

void check_waited(const struct ibv_comp_channel *channel)
{
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "lost-wakeup",
		.remedy = "poll once more between ibv_req_notify_cq() and the wait",
		.text = "the wait for an event of a completion queue in which completions are that came between its "
			"last poll and ibv_req_notify_cq(): no event need tell of them",
		.at = {{"waits", NULL}, {"armed", NULL}}};

	if (check_is_paused() || !check_wants(CHECK_HABITS))
		return;
	lock_take(&objects_lock);
	f.at[1].stack = find_late(channel);
	lock_drop(&objects_lock);
	if (!f.at[1].stack || fcntl(channel->fd, F_GETFL) & O_NONBLOCK || is_polled_by_epoll(channel->fd))
		return;
	f.at[0].stack = stack_here();
	finding_report(&f);
}

/* ---- acknowledgements ---- */

static bool is_past(const struct timespec *end)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec > end->tv_sec || (now.tv_sec == end->tv_sec && now.tv_nsec >= end->tv_nsec);
}

static uint32_t missing(const struct awaited *a)
{
	/* acquire: pairs with the release of a thread that acknowledges, and does not use the object after it */
	return a->wanted - __atomic_load_n(a->given, __ATOMIC_ACQUIRE);
}

/* False if `end` has passed. */
static bool await_more(const struct awaited *a, const struct timespec *end)
{
	if (a->given_more)
		return pthread_cond_timedwait(a->given_more, a->mutex, end) != ETIMEDOUT;
	nanosleep(&(struct timespec){.tv_nsec = ACK_LOOKS}, NULL);
	return !is_past(end);
}

void check_unacknowledged(const char *what, const struct awaited *a)
{
	struct finding f = {.class = CHECK_HABITS,
			    .name = "not-acknowledged",
			    .remedy = "acknowledge each event that was fetched, before the object is destroyed",
			    .at = {{"destroyed", NULL}}};
	struct timespec end;

	if (check_is_paused() || !check_wants(CHECK_HABITS))
		return;
	clock_gettime(CLOCK_REALTIME, &end); /* a condition's clock */
	end.tv_sec += ACK_WAIT;
	while (missing(a) && await_more(a, &end))
		;
	if (!missing(a))
		return;
	snprintf(f.text, sizeof(f.text),
		 "%s waits for the acknowledgement of %u event%s: forever, unless another thread gives it", what,
		 missing(a), missing(a) > 1 ? "s" : "");
	f.at[0].stack = stack_here();
	finding_report(&f);
}
