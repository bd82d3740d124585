/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that polled last, as the helper sees it. If more threads want to run than there are processors, a polling
 * thread has none for most of the time and seems not to poll. But work of the helper in its place takes a processor
 * too, and peers would wake the helper for each message. */
#ifndef UROCE_LOOP_POLLER_H
#define UROCE_LOOP_POLLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

struct poller {
	_Atomic pid_t thread; /* relaxed: a hint */
	/* Values of the helper's last look; the helper's own. */
	uint64_t at, polled, used; /* ns: time of the look; of the last poll; processor time that the thread had used */
	uint32_t excused;	   /* consecutive looks at which the thread had not polled but was excused */
	uint32_t crowded;	   /* consecutive looks at which it had polled and wanted a processor */
	bool sure;		   /* the thread polls for good, and was not found to compute or sleep since */
};

extern _Thread_local pid_t poller_self;
void poller_learn_self(void); /* sets poller_self */

/* Notes that the calling thread polls. */
static inline void poller_note(struct poller *p)
{
	if (unlikely(!poller_self))
		poller_learn_self();
	atomic_store_explicit(&p->thread, poller_self, memory_order_relaxed);
}
/* Notes at a look that the thread polls; `for_good`: as at the looks before. */
static inline void poller_polls(struct poller *p, bool for_good)
{
	p->excused = 0;
	p->sure |= for_good;
}
/* Tells whether a thread would poll if it had a processor: it is runnable, has not computed since the last look, and
 * has polled since then, or for good. `polled`: ns, time of the last poll. Returns the number of consecutive looks of
 * which that is true, 1 if the thread has polled since the last; 0: no. */
uint32_t poller_waits(struct poller *p, uint64_t now, uint64_t polled);

#endif
