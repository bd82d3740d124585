/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/timeout.h"

#include "rsocket/attend.h"
#include "rsocket/table.h"

static struct lock timeout_lock = LOCK_RANKED(RSOCKET_TIMEOUT);
static struct list timed GUARDED_BY(timeout_lock) = {&timed, &timed}; /* without references */

void timeout_forget(struct rsocket *rs)
{
	lock_take(&timeout_lock);
	list_remove(&rs->timed);
	lock_drop(&timeout_lock);
}

/* period 0: once. */
static void timeout_set(struct rsocket *rs, uint64_t due, uint64_t period)
{
	lock_take(&timeout_lock);
	list_remove(&rs->timed);
	rs->due = due;
	rs->period = period;
	list_append(&timed, &rs->timed);
	lock_drop(&timeout_lock);
	attend_poke();
}

void timeout_keepalive(struct rsocket *rs)
{
	if (rsocket_state(rs) != RS_CONNECTED)
		return; /* a connection attempt may be in the list */
	if (rs->keepalive)
		timeout_set(rs, clock_now() + (uint64_t)rs->keep_idle * SEC, (uint64_t)max_of(rs->keep_idle, 1) * SEC);
	else
		timeout_forget(rs);
}

void rsocket_connected(struct rsocket *rs)
{
	rsocket_set_state(rs, RS_CONNECTED);
	if (rs->keepalive)
		timeout_keepalive(rs);
}

void timeout_connect(struct rsocket *rs, uint64_t until)
{
	timeout_set(rs, until, 0);
}

struct rsocket *timeout_due(uint64_t now, uint64_t *next)
{
	struct rsocket *due = NULL;

	lock_take(&timeout_lock);
	*next = NEVER;
	list_each_safe (l, &timed) {
		struct rsocket *rs = container_of(l, struct rsocket, timed);

		if (rs->due <= now && !due && rsocket_try_ref(rs)) {
			due = rs;
			rs->due = now + rs->period;
			if (!rs->period) {
				list_remove(&rs->timed);
				continue;
			}
		}
		*next = min_of(*next, rs->due);
	}
	lock_drop(&timeout_lock);
	return due;
}

void timeout_in_child(void)
{
	lock_assert_unshared(&timeout_lock);
	list_init(&timed);
}
