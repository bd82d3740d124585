/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits for events: lost events, unarmed CQs, and missing acknowledgements. */
#include "check/events.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "check/finding.h"
#include "check/objects.h"
#include "check/queues.h"
#include "check/scope.h"
#include "check/stack.h"
#include "object/cq.h"

#define PATIENCE   1	       /* s: for acknowledgements that another thread is about to give */
#define LOOK_AGAIN (10 * MSEC) /* interval of looking, without a condition to wait for */

void check_waited(const struct ibv_comp_channel *channel)
{
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "lost-wakeup",
		.remedy = "poll once more between ibv_req_notify_cq() and the wait",
		.text = "the wait for an event of a completion queue that was polled, then armed, and not polled "
			"again: no event tells of what came in between"};
	const struct stack *armed = NULL;

	if (check_is_paused() || !check_wants(CHECK_HABITS))
		return;
	lock_take(&objects_lock);
	for (struct object *o = objects_next(NULL); o && !armed; o = objects_next(o))
		if (o->kind == CHECK_CQ && o->uses[1] == channel && o->watch && o->watch->armed &&
		    !o->watch->polled_since_armed)
			armed = o->watch->armed_at;
	lock_drop(&objects_lock);
	if (!armed)
		return;
	f.at[0].title = "waits";
	f.at[0].stack = stack_here();
	f.at[1].title = "armed";
	f.at[1].stack = armed;
	finding_report(&f);
}

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
	nanosleep(&(struct timespec){.tv_nsec = LOOK_AGAIN}, NULL);
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
	end.tv_sec += PATIENCE;
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
