/* SPDX-License-Identifier: BSD-2-Clause */
#include "progress/poll.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/timer.h"
#include "base/uncancelled.h"
#include "base/yield.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "loop/poller.h"
#include "port/local.h"
#include "port/local_link.h"
#include "port/raw.h"
#include "port/receive.h"
#include "port/run.h"
#include "progress/tuned.h"

/* One poll. Returns an amount of work: packets, or many for other things. `seen`: ns, about the time; set to the time
 * at which something came. `flush`: waiting requests are sent. */
static uint32_t poll_once(struct loop *l, uint64_t *seen, bool flush, struct cq_poller *poller)
{
	uint32_t n = 0;

	if (unlikely(atomic_load_explicit(&l->local.expected, memory_order_relaxed)))
		local_look(l, *seen);
	if (unlikely(flush && has_ready(l)))
		n = run_ready(l, *seen = clock_now()) ? STALE_AFTER : 0;
	if (lock_try(&l->receive)) {
		n += receive_all(l, seen, poller);
		local_unstick(l);
		lock_drop(&l->receive);
	}
	if (unlikely(timers_next(&l->hca.timers) <= *seen))
		n += run_timers(l, clock_now()) ? STALE_AFTER : 0;
	return n;
}

bool progress(struct loop *l, uint64_t now)
{
	return poll_once(l, &now, true, NULL);
}

/* State of a thread that polls. */
static _Thread_local struct watch {
	uint64_t seen;	  /* ns: the last time read from the clock */
	uint32_t spared;  /* polls since then without a look at the clock */
	uint32_t glances; /* such polls left until the next look */
	uint32_t busy;	  /* polls of a thread that has other work */
	uint64_t vain;	  /* ns: time since which the thread polls in vain */
	uint64_t keep;	  /* ns without a yield left, as others ran for long in the last */
	uint64_t crowded; /* ns: until this time a program that does not yield wants this processor too */
	bool again;	  /* the next such finding is the second in succession */
	bool gave;	  /* another thread has had the processor since something came last */
	uint8_t shares;	  /* early yields left: see watch_found() */
	uint8_t excused;  /* polls left that need no yield, as the program yields by itself */
} watch;

void loop_yielded(uint64_t took)
{
	watch.excused = took < YIELD_HELD ? YIELDS_ITSELF : 0;
	if (!watch.excused) /* by a program that does not yield: better this thread sleeps until something comes */
		watch.crowded = clock_now() + min_of(CROWDED_ONCE * took, CROWDED_MOST);
}

/* Notes that something has come. If it came only when another thread had this processor, its sender may run here, and
 * cannot answer before it runs: this thread then polls only a few times before it yields. SPARE_FOR counts arrivals and
 * yields; after that the time of polling in vain tells again. */
static inline void watch_found(struct watch *w)
{
	if (likely(!(w->gave | w->shares)))
		return;
	w->shares = w->shares ? w->shares - 1 : SPARE_FOR;
	w->gave = false;
	if (w->shares)
		w->spared = w->glances = min_of(w->glances, (uint32_t)FEW_GLANCES);
}

/* Time in ns to keep the processor after a yield. Each of many polling threads of one process yields after a short
 * turn, so a long sched_yield() may be the sum of their turns. If each kept the processor for a share of it, turns
 * would grow with the number of threads, one of which all others wait for. `others`: sched_yield() calls of other
 * threads meanwhile. */
static uint64_t keep_after(const struct loop *l, uint64_t took, uint32_t others)
{
	if (!others)
		return took / YIELD_SHARE;
	return took * l->processors < others * TURN ? 0 : min_of(took / YIELD_SHARE, KEEP_MAX);
}

/* Sleeps until something comes, at most `time` ns (less than 1 s). False: another thread receives; or ports may bring
 * something, and `by_rings` is set. */
static bool sleep_for(struct loop *l, bool by_rings, uint64_t time)
{
	const struct timespec t = {.tv_nsec = (long)time};
	struct pollfd p[1 + SLEEP_PORTS];
	uint32_t n = 0;
	bool awake;

	if (!lock_try(&l->receive))
		return false;
	if (by_rings && (l->ports_busy || !l->local.rx_rings)) {
		lock_drop(&l->receive);
		return false;
	}
	p[n++] = (struct pollfd){.fd = l->local.doorbell, .events = POLLIN};
	for (uint32_t i = 0; i < l->ports && i < SLEEP_PORTS; i++)
		p[n++] = (struct pollfd){.fd = l->port[i]->link->fd, .events = POLLIN};
	awake = local_sleep(l);
	lock_drop(&l->receive);
	if (!awake)
		uncancelled_ppoll(p, n, &t, NULL);
	return true;
}

/* Naps. Counts as one long poll, so the helper stays out of the way. */
static bool nap(struct loop *l, bool by_rings)
{
	bool slept;

	atomic_store_explicit(&l->last_poll, AT_WORK, memory_order_relaxed); /* hints, as in poll_loop() */
	slept = sleep_for(l, by_rings, NAP);
	atomic_store_explicit(&l->last_poll, clock_now(), memory_order_relaxed);
	return slept;
}

/* Calls sched_yield() from time to time in a thread whose polls find nothing: the process that is to answer may be
 * waiting for this processor. On a free processor that costs next to nothing; else a time slice per round trip. A
 * thread with other work between its polls would hardly get to it beside processes that compute, so it does not
 * yield; nor does one whose program yields between polls, as MPI's ranks do: a second yield costs it a turn. */
static void give_way(struct loop *l, struct watch *w, uint64_t now, bool any)
{
	bool early = w->shares;
	uint32_t mine, others;
	uint64_t begin, took;

	if (any || now < w->vain) {
		w->vain = now;
		watch_found(w);
	} else if (now < w->crowded) {
		if ((early || now - w->vain > NAP_AFTER) && nap(l, now - w->vain <= NAP_AFTER_PORT)) {
			w->vain = clock_now();
			w->gave = true;
			w->shares -= early;
		}
	} else if (w->excused) {
		w->excused--;
		w->vain = now;
	} else if (early || now - w->vain > YIELD_AFTER + w->keep) {
		begin = clock_now();
		/* a hint, as are the values read below */
		mine = atomic_fetch_add_explicit(&l->offers, 1, memory_order_relaxed);
		processor_yield();
		took = clock_now() - begin;
		w->gave = took > YIELD_USED && took < YIELD_LONG;
		w->shares -= early;
		others = atomic_load_explicit(&l->offers, memory_order_relaxed) - mine - 1;
		w->keep = took > YIELD_LONG ? keep_after(l, took, others) : 0;
		w->vain = now + (w->keep ? took : 0);
		if (took > YIELD_LONG && !others)
			w->crowded = now + took + min_of((w->again ? CROWDED : CROWDED_ONCE) * took, CROWDED_MOST);
		w->again = took > YIELD_LONG && !others;
	}
}

void loop_awake(void)
{
	watch.vain = clock_now();
}

/* The time, as a polling thread needs it. Reading the clock and checking what is due takes longer than several polls of
 * rings, and delays what comes meanwhile. So a thread that polls without a pause uses the time of FEW_GLANCES polls
 * ago, or of as many, up to MANY_GLANCES, as it makes in GLANCE_TIME at its pace since. */
static uint64_t glance(struct watch *w)
{
	uint64_t now = clock_now(), passed = now - w->seen;
	uint64_t spared = GLANCE_TIME * (w->spared + 1) / max_of(passed, (uint64_t)1);

	w->spared = w->glances = passed < GLANCE_TIME ? (uint32_t)min_of(max_of(spared, FEW_GLANCES),
									 w->shares ? FEW_GLANCES : MANY_GLANCES)
						      : 0;
	return w->seen = now;
}

/* True if waiting requests may leave with the next post of a busy thread. That thread may post nothing. */
static bool leaves_waiting(struct watch *w)
{
	return ++w->busy % FLUSH_AFTER;
}

/* Polls the rings of local peers only, as nothing falls due between two looks at the clock. False if something waits
 * that needs a full poll; *any: something has come. */
static bool poll_rings(struct loop *l, struct watch *w, struct cq_poller *poller, bool *any)
{
	bool all;

	if (!w->glances)
		return false;
	w->glances--;
	if (unlikely(has_ready(l)) || !lock_try(&l->receive))
		return false;
	all = l->local.rx_rings && !l->ports_busy && likely(!local_is_stuck(&l->local));
	*any = all && receive_rx_rings(l, poller);
	l->rx_rings_busy |= *any;
	lock_drop(&l->receive);
	if (*any) {
		w->vain = w->seen;
		w->glances -= min_of(w->glances, FOUND_GLANCES);
		watch_found(w);
	}
	return all;
}

/* Polls. `busy`: the thread has other work. */
static bool poll_loop(bool busy, struct cq_poller *poller)
{
	/* acquire pairs with the release in loop_get() */
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_acquire);
	struct watch *w = &watch;
	bool any;
	uint64_t now;
	uint32_t n;

	if (unlikely(!l))
		return false;
	if (likely(poll_rings(l, w, poller, &any)))
		return any;
	now = w->glances ? w->seen : glance(w);
	atomic_store_explicit(&l->last_poll, AT_WORK, memory_order_relaxed); /* hints for the helper */
	n = poll_once(l, &now, !busy || !leaves_waiting(w), poller);
	n += raw_progress();
	atomic_store_explicit(&l->last_poll, n < STALE_AFTER ? now : clock_now(), memory_order_relaxed);
	poller_note(&l->poller);
	give_way(l, w, now, n || busy);
	return n;
}

bool loop_progress(void)
{
	return poll_loop(false, NULL);
}

bool loop_progress_for(struct cq_poller *poller)
{
	return poll_loop(false, poller);
}

bool loop_look_around(void)
{
	return poll_loop(true, NULL);
}
