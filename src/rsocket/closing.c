/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/closing.h"

#include "object/qp.h"
#include "progress/poll.h"
#include "rsocket/attend.h"
#include "rsocket/await.h"
#include "rsocket/cm_events.h"
#include "rsocket/flow.h"
#include "rsocket/table.h"
#include "rsocket/tuned.h"
#include "rsocket/waiter.h"

static struct lock closing_lock = LOCK_RANKED(RSOCKET_CLOSING);
static struct list closing GUARDED_BY(closing_lock) = {&closing, &closing}; /* each has a reference */
static uint32_t closing_count GUARDED_BY(closing_lock); /* in the list, or taken from it by closing_run() */
static _Atomic uint64_t closing_moved;			/* clock_now() of the last ACK. Relaxed: for waits that end */

static void closer_wake(struct waiter *w)
{
	attend_poke();
}

void closing_add(struct rsocket *rs)
{
	rs->closer.wake = closer_wake;
	rsocket_wait_add(rs, &rs->closer);
	lock_take(&closing_lock);
	list_append(&closing, &rs->closing);
	closing_count++;
	lock_drop(&closing_lock);
	rsocket_arm(rs);
	attend_poke();
}

static bool is_done(struct rsocket *rs)
{
	bool drained;

	lock_take(&rs->lock);
	rsocket_arm(rs);
	stream_process(rs);
	drained = stream_is_drained(rs);
	lock_drop(&rs->lock);
	return drained;
}

/* Notes in closing_moved that an ACK has come since this was last called. */
static void note_moved(struct rsocket *rs)
{
	uint32_t una = 0;
	struct qp *qp;
	bool moved;

	lock_take(&rs->lock);
	qp = rs->id ? (struct qp *)rs->id->qp : NULL;
	if (qp) {
		lock_take(&qp->lock);
		una = qp->req.una.v;
		lock_drop(&qp->lock);
	}
	moved = una != rs->una;
	rs->una = una;
	lock_drop(&rs->lock);
	if (moved)
		atomic_store_explicit(&closing_moved, clock_now(), memory_order_relaxed);
}

void closing_run(void)
{
	struct list rest, *l;

	list_init(&rest);
	lock_take(&closing_lock);
	while ((l = list_pop(&closing)))
		list_append(&rest, l);
	lock_drop(&closing_lock);
	while ((l = list_pop(&rest))) {
		struct rsocket *rs = container_of(l, struct rsocket, closing);

		if (is_done(rs)) {
			rsocket_wait_remove(rs, &rs->closer);
			rsocket_put(rs);
			lock_take(&closing_lock);
			closing_count--;
			lock_drop(&closing_lock);
			continue;
		}
		note_moved(rs);
		lock_take(&closing_lock);
		list_append(&closing, l);
		lock_drop(&closing_lock);
	}
}

static void say_last_word(struct rsocket *rs)
{
	if (is_datagram(rs))
		return;
	lock_take(&rs->lock);
	if (rsocket_state(rs) == RS_CONNECTED && !rs->write_shut)
		stream_control(rs, stream_last_word(rs));
	lock_drop(&rs->lock);
}

static _Thread_local bool any_open; /* found by look(): an rsocket that is not closed has bytes without an ACK */

static void look(struct rsocket *rs)
{
	if (is_datagram(rs) || is_done(rs))
		return;
	any_open = true;
	note_moved(rs);
}

uint64_t closing_last_moved(void)
{
	return atomic_load_explicit(&closing_moved, memory_order_relaxed);
}

/* Of all rsockets at once, so that those whose peers are silent cost PART_TIME together. */
static bool all_are_done(void)
{
	bool done;

	cm_events_run(); /* a peer that has ended sends no more ACKs */
	closing_run();
	any_open = false;
	rsocket_each(look);
	lock_take(&closing_lock);
	done = !any_open && !closing_count;
	lock_drop(&closing_lock);
	return done || clock_now() >= closing_last_moved() + PART_TIME;
}

void closing_finish(void)
{
	rsocket_each(say_last_word);
	atomic_store_explicit(&closing_moved, clock_now(), memory_order_relaxed);
	while (!all_are_done())
		loop_progress();
}

void closing_in_child(void)
{
	lock_assert_unshared(&closing_lock);
	list_init(&closing);
	closing_count = 0;
}
