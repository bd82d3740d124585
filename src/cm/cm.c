/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/cm.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/fork.h"
#include "cm/state.h"

struct machine cm = {.lock = LOCK_RANKED(CM)};

uint64_t cm_now(void)
{
	return clock_now();
}

/* Random numbers, fetched in blocks. */
static struct lock random_lock = LOCK_RANKED(CM_RANDOM);
static uint32_t random_numbers[64] GUARDED_BY(random_lock);
static size_t random_left GUARDED_BY(random_lock);

uint32_t cm_random(void)
{
	uint32_t n;

	lock_take(&random_lock);
	if (!random_left) {
		while (getrandom(random_numbers, sizeof(random_numbers), 0) < 0 && errno == EINTR)
			;
		random_left = ARRAY_SIZE(random_numbers);
	}
	n = random_numbers[--random_left];
	lock_drop(&random_lock);
	return n;
}

static void last_before_fork(void) ACQUIRE(cm.lock)
{
	lock_take(&cm.lock);
}

static void first_after_fork(void) RELEASE(cm.lock)
{
	lock_drop(&cm.lock);
}

static void first_in_child(void) RELEASE(cm.lock)
{
	lock_assert_unshared(&random_lock);
	random_left = 0; /* the fetched bits are the parent's too */
	first_after_fork();
}

__attribute__((constructor)) static void cm_watch_forks(void)
{
	static const struct fork_handlers inner = {last_before_fork, first_after_fork, first_in_child};

	fork_watch(FORK_CM, &inner);
}
