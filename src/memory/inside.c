/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/inside.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "memory/share.h"

_Thread_local uint32_t hazard_number;
static _Atomic uint64_t hazards_taken;
static pthread_key_t hazard_key;
static pthread_once_t hazard_once = PTHREAD_ONCE_INIT;
static_assert(SHARE_HAZARDS < 64, "a bit for each");

static void hazard_give(void *hazard)
{
	/* release: the next owner of the counter sees its value */
	atomic_fetch_and_explicit(&hazards_taken, ~(1ull << ((uintptr_t)hazard - 1)), memory_order_release);
	hazard_number = NO_HAZARD;
}

static void make_hazard_key(void)
{
	pthread_key_create(&hazard_key, hazard_give);
}

uint32_t hazard_take(void)
{
	uint64_t taken = atomic_load_explicit(&hazards_taken, memory_order_relaxed);
	int free;

	pthread_once(&hazard_once, make_hazard_key);
	do {
		free = ~taken ? __builtin_ctzll(~taken) : 64;
		if (free >= SHARE_HAZARDS) {
			hazard_number = NO_HAZARD;
			return hazard_number;
		}
		/* acquire pairs with hazard_give() */
	} while (!atomic_compare_exchange_weak_explicit(&hazards_taken, &taken, taken | 1ull << free,
							memory_order_acquire, memory_order_relaxed));
	hazard_number = (uint32_t)free + 1;
	pthread_setspecific(hazard_key, (void *)(uintptr_t)hazard_number);
	return hazard_number;
}
