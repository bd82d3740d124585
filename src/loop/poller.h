/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that polled last, as the helper sees it. If more threads want to run than there are processors, one that
 * polls has none for most of the time. It looks as one that does not poll, but what the helper would do in its place
 * takes a processor too, and peers would wake the helper for each message. */
#ifndef UROCE_LOOP_POLLER_H
#define UROCE_LOOP_POLLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

struct poller {
	_Atomic pid_t thread; /* relaxed: a hint */
	/* the helper's own: at its last look ... */
	uint64_t at, polled, used; /* ns: the time; of the last poll; of processor that the thread had used */
	uint32_t excused;	   /* looks in succession at which it had not polled, */
	uint32_t crowded;	   /* or had, and wanted a processor */
	bool sure;		   /* it has polled for good, and was not found to compute or to sleep since */
};

extern _Thread_local pid_t poller_self;
void poller_learn_self(void);

/* This thread polls. */
static inline void poller_note(struct poller *p)
{
	if (unlikely(!poller_self))
		poller_learn_self();
	atomic_store_explicit(&p->thread, poller_self, memory_order_relaxed);
}
/* It polls, at a look; `for_good`: as at those before. */
static inline void poller_polls(struct poller *p, bool for_good)
{
	p->excused = 0;
	p->sure |= for_good;
}
/* Whether a thread would poll if it had a processor: it is runnable, has not computed since the last look, and has
 * polled since then, or for good. `polled`: when it polled last. Returns how many looks in succession have said so, 1
 * if it has polled since the last; 0: no. */
uint32_t poller_waits(struct poller *p, uint64_t now, uint64_t polled);

#endif
