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
static uint64_t closing_moved GUARDED_BY(closing_lock); /* clock_now() when one of them last got an ACK */

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

/* Whether an ACK has come since this was last asked. */
static bool has_moved(struct rsocket *rs)
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
	return moved;
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
		bool moved;

		if (is_done(rs)) {
			rsocket_wait_remove(rs, &rs->closer);
			rsocket_put(rs);
			lock_take(&closing_lock);
			closing_count--;
			lock_drop(&closing_lock);
			continue;
		}
		moved = has_moved(rs);
		lock_take(&closing_lock);
		list_append(&closing, l);
		if (moved)
			closing_moved = clock_now();
		lock_drop(&closing_lock);
	}
}

static bool has_closing(uint64_t *moved)
{
	bool has;

	lock_take(&closing_lock);
	has = closing_count;
	*moved = closing_moved;
	lock_drop(&closing_lock);
	return has;
}

static void finish(struct rsocket *rs)
{
	if (is_datagram(rs))
		return;
	lock_take(&rs->lock);
	if (rsocket_state(rs) == RS_CONNECTED && !rs->write_shut)
		stream_control(rs, stream_last_word(rs));
	lock_drop(&rs->lock);
	for (uint64_t moved = clock_now(); !is_done(rs) && clock_now() < moved + PART_TIME;) {
		loop_progress();
		if (has_moved(rs))
			moved = clock_now();
	}
}

void closing_finish(void)
{
	uint64_t start, moved;

	rsocket_each(finish);
	start = clock_now();
	while (has_closing(&moved) && clock_now() < max_of(start, moved) + PART_TIME) {
		loop_progress();
		closing_run();
	}
}

void closing_in_child(void)
{
	lock_assert_unshared(&closing_lock);
	list_init(&closing);
	closing_count = 0;
}
