/* SPDX-License-Identifier: BSD-2-Clause */
/* The slow paths of a lock: spin a little (a critical section takes the time of one packet), then sleep in the
 * kernel. */
#include "base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPINS 100

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

void lock_wait(struct lock *l)
{
	for (int i = 0; i < SPINS; i++) {
		if (lock_try(l))
			return;
		relax();
	}
	/* 2 makes the holder wake this thread; acquire pairs with the release in lock_drop() */
	while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire) != 0)
		syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
	lock_take_over(l);
}

void lock_wake(struct lock *l)
{
	syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
