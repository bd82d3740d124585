/* SPDX-License-Identifier: BSD-2-Clause */
#include "progress/waitfd.h"

#include <poll.h>

#include "base/clock.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "loop/waiting.h"
#include "port/local_link.h"
#include "port/receive.h"
#include "port/run.h"
#include "progress/poll.h"
#include "progress/tuned.h"

static _Thread_local char own; /* its address names the thread */

void waitfd_init(struct waitfd *w, int fd, struct hca *hca)
{
	*w = (struct waitfd){.loop = container_of(hca, struct loop, hca), .fd = fd};
}

static void waitfd_leave(struct loop *l) REQUIRES(l->receive)
{
	waiting_unwatch(l->waiting.fd, l->local.doorbell);
	for (uint32_t i = 0; i < l->ports; i++)
		waiting_unwatch(l->waiting.fd, l->port[i]->link->fd);
	l->waiting.fd->rung = true; /* the descriptor may have been readable */
	l->waiting.fd = NULL;
}

static void waitfd_enter(struct loop *l, struct waitfd *w) REQUIRES(l->receive)
{
	waiting_watch(w, l->local.doorbell);
	for (uint32_t i = 0; i < l->ports; i++)
		waiting_watch(w, l->port[i]->link->fd);
	l->waiting.fd = w;
	l->waiting.thread = &own;
}

/* Joins `w` to the doorbell and the ports, if it is its turn. True: `w` is joined. */
static bool waitfd_join(struct loop *l, struct waitfd *w) REQUIRES(l->receive)
{
	struct waiting *at = &l->waiting;

	if (likely(at->fd == w)) {
		at->others = 0;
		return true;
	}
	if (at->apart) {
		at->apart--;
		return false;
	}
	if (at->fd && at->thread != &own) {
		waitfd_leave(l);
		at->apart = WAITFD_APART;
		return false;
	}
	if (at->fd && ++at->others < WAITFD_OTHERS)
		return false;
	if (at->fd)
		waitfd_leave(l);
	at->others = 0;
	waitfd_enter(l, w);
	return true;
}

/* Receives what a sleeping thread is woken for: from local peers, or else the network; makes QPs ready that waited for
 * room. */
static void receive_what_rang(struct loop *l) REQUIRES(l->receive)
{
	uint64_t now = clock_now();

	receive_now(l, &now);
	local_unstick(l);
	atomic_store_explicit(&l->last_poll, now, memory_order_relaxed); /* a hint for the helper */
}

bool waitfd_receives(struct loop *l, uint64_t since)
{
	bool receives;

	lock_take(&l->receive);
	receives = l->waiting.fd && atomic_load_explicit(&l->last_poll, memory_order_relaxed) > since; /* a hint */
	lock_drop(&l->receive);
	return receives;
}

void waitfd_arm(struct waitfd *w)
{
	struct loop *l = w->loop;
	bool sends = true, more = false;

	if (loop_is_inert(l))
		return;
	lock_take(&l->receive);
	if (waitfd_join(l, w)) {
		more = local_sleep(l);
		sends = has_ready(l);
		/* a hint for the helper */
		atomic_store_explicit(&l->last_poll, clock_now(), memory_order_relaxed);
	}
	lock_drop(&l->receive);
	if (sends)
		loop_progress();
	for (int i = 0; more && i < WAITFD_TRIES; i++) {
		waitfd_look(w);
		if (has_ready(l))
			run_ready(l, clock_now());
		more = waitfd_settle(w);
	}
	if (more)
		helper_kick(l);
}

/* The loop, with `receive` held, if `w` is joined; else NULL. */
static struct loop *waitfd_hold(struct waitfd *w) NO_LOCK_ANALYSIS
{
	struct loop *l = w->loop;

	if (loop_is_inert(l))
		return NULL;
	lock_take(&l->receive);
	if (l->waiting.fd == w)
		return l;
	lock_drop(&l->receive);
	return NULL;
}

bool waitfd_look(struct waitfd *w) NO_LOCK_ANALYSIS
{
	struct loop *l = waitfd_hold(w);

	if (!l)
		return false;
	receive_what_rang(l);
	lock_drop(&l->receive);
	loop_awake();
	return true;
}

void waitfd_send(struct waitfd *w)
{
	struct loop *l = w->loop;

	if (!loop_is_inert(l) && has_ready(l))
		run_ready(l, clock_now());
}

bool waitfd_settle(struct waitfd *w) NO_LOCK_ANALYSIS
{
	struct loop *l = waitfd_hold(w);
	bool more;

	if (!l)
		return false;
	more = local_sleep(l);
	lock_drop(&l->receive);
	return more;
}

/* Has local peers ring again when they send, before the thread waits. False: they send without a pause. */
static bool waitfd_sleep(struct loop *l) REQUIRES(l->receive)
{
	for (int i = 0; i < WAITFD_TRIES; i++) {
		if (!local_sleep(l))
			return true;
		receive_what_rang(l);
	}
	return false;
}

bool waitfd_was_rung(struct waitfd *w) NO_LOCK_ANALYSIS
{
	struct loop *l = w->loop;
	bool rung, rings;

	if (loop_is_inert(l))
		return false;
	lock_take(&l->receive);
	/* polls receive from rings without emptying the doorbell, so it is emptied here */
	rings = l->waiting.fd == w && !waitfd_sleep(l);
	rung = w->rung || rings;
	w->rung = rings;
	lock_drop(&l->receive);
	return rung;
}

bool waitfd_is_readable(struct waitfd *w)
{
	struct pollfd p = {.fd = w->fd, .events = POLLIN};

	return waitfd_forget(w) || poll(&p, 1, 0) > 0;
}

bool waitfd_forget(struct waitfd *w)
{
	struct loop *l = w->loop;
	bool rung;

	if (loop_is_inert(l))
		return false;
	lock_take(&l->receive);
	rung = w->rung;
	w->rung = false;
	lock_drop(&l->receive);
	return rung;
}

void waitfd_part(struct waitfd *w) NO_LOCK_ANALYSIS
{
	struct loop *l = waitfd_hold(w);

	if (!l)
		return;
	waitfd_leave(l);
	w->rung = false;
	lock_drop(&l->receive);
}
