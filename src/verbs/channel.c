/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels: see channel.h. */
#include "verbs/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/msan.h"
#include "check/events.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "device/front.h"
#include "fault/inject.h"
#include "progress/poll.h"
#include "progress/wait.h"
#include "progress/waitfd.h"
#include "verbs/context.h"
#include "verbs/cq_front.h"
#include "verbs/tuned.h"

/* The channel from which this thread is about to fetch an event. An event that the thread causes meanwhile needs no
 * write to the eventfd. */
static _Thread_local struct channel *fetching;

/* True from an event that this thread fetches or causes, until it arms a CQ or finds no event: the thread may be about
 * to send a reply, which can carry an ACK. */
static _Thread_local bool answers;

/* The channel of the CQ that this thread armed last, and the number of times that the thread had slept by then. */
static _Thread_local struct {
	const struct channel *ch;
	long sleeps;
} armed_last;

static long thread_sleeps(void)
{
	struct rusage u;

	return getrusage(RUSAGE_THREAD, &u) ? 0 : u.ru_nvcsw;
}

/* The program's descriptor, with the eventfd in it. */
static int channel_open(struct channel *ch)
{
	struct epoll_event e = {.events = EPOLLIN};

	ch->events = high_fd(eventfd(0, EFD_CLOEXEC));
	ch->base.fd = epoll_create1(EPOLL_CLOEXEC);
	waitfd_init(&ch->waitfd, ch->base.fd, context_of(ch->base.context)->hca);
	if (ch->events >= 0 && ch->base.fd >= 0 && !epoll_ctl(ch->base.fd, EPOLL_CTL_ADD, ch->events, &e))
		return 0;
	if (ch->events >= 0)
		close(ch->events);
	if (ch->base.fd >= 0)
		close(ch->base.fd);
	return -errno;
}

PUBLIC struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *ch = inject_call(CALL_ibv_create_comp_channel) ? NULL : calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	lock_set_rank(&ch->lock, RANK_CHANNEL);
	list_init(&ch->ready);
	list_init(&ch->cqs);
	ch->base.context = context;
	if (channel_open(ch)) {
		free(ch);
		return NULL;
	}
	atomic_fetch_add_explicit(&context_of(context)->objects, 1, memory_order_relaxed);
	check_made(CHECK_CHANNEL, ch, 0, context);
	return &ch->base;
}

PUBLIC int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct channel *ch = (struct channel *)channel;
	bool busy;

	lock_take(&ch->lock);
	busy = channel->refcnt;
	lock_drop(&ch->lock);
	if (busy) {
		check_busy(CHECK_CHANNEL, channel);
		return fail(EBUSY);
	}
	check_gone(CHECK_CHANNEL, channel);
	waitfd_part(&ch->waitfd);
	atomic_fetch_sub_explicit(&context_of(channel->context)->objects, 1, memory_order_release);
	close(channel->fd);
	close(ch->events);
	free(ch);
	return 0;
}

void channel_join(struct channel *ch, struct cq_front *cq)
{
	lock_take(&ch->lock);
	ch->base.refcnt++;
	list_append(&ch->cqs, &cq->of_channel);
	lock_drop(&ch->lock);
}

void channel_leave(struct channel *ch)
{
	bool last;

	lock_take(&ch->lock);
	last = list_empty(&ch->cqs);
	lock_drop(&ch->lock);
	if (last)
		waitfd_part(&ch->waitfd); /* there is no CQ of which channel_tell_any() could tell */
	lock_take(&ch->lock);
	ch->base.refcnt--;
	lock_drop(&ch->lock);
}

void channel_arm(struct channel *ch)
{
	loop_awake();
	answers = false;
	if (atomic_load_explicit(&ch->found, memory_order_relaxed) >= FOUND_SURE) {
		waitfd_arm(&ch->waitfd);
		return;
	}
	loop_progress();
	armed_last.ch = ch;
	armed_last.sleeps = thread_sleeps();
}

/* ibv_get_cq_event() has found an event at once. If the thread has slept since it armed the CQ, the program waits for
 * the descriptor and not in ibv_get_cq_event(). One such call is no proof, and a wrong guess harms: ib_send_lat takes
 * an event without a completion for one with. */
static void channel_found(struct channel *ch)
{
	if (atomic_load_explicit(&ch->found, memory_order_relaxed) < FOUND_SURE && armed_last.ch == ch &&
	    thread_sleeps() != armed_last.sleeps)
		atomic_fetch_add_explicit(&ch->found, 1, memory_order_relaxed);
}

/* The eventfd is readable while the queue is not empty. */
static void channel_settle(struct channel *ch) REQUIRES(ch->lock)
{
	bool tell = !list_empty(&ch->ready);
	eventfd_t count;

	if (tell && !ch->told)
		eventfd_write(ch->events, 1);
	else if (!tell && ch->told)
		eventfd_read(ch->events, &count);
	ch->told = tell;
}

static void channel_append(struct channel *ch, struct cq *cq) REQUIRES(ch->lock)
{
	if (cq->events++ == 0)
		list_append(&ch->ready, &cq->waiting);
}

void channel_cq_event(struct cq *cq)
{
	struct channel *ch = cq->channel;

	if (cq->notify)
		cq->notify(cq);
	if (!ch)
		return;
	if (fetching)
		answers = true;
	lock_take(&ch->lock);
	channel_append(ch, cq);
	/* a write for each event, not only for the first: an edge-triggered epoll then reports each event, as with the
	 * kernel */
	if (fetching != ch) {
		eventfd_write(ch->events, 1);
		ch->told = true;
	}
	lock_drop(&ch->lock);
}

static struct cq *channel_fetch(struct channel *ch) EXCLUDES(ch->lock)
{
	struct cq *cq = NULL;
	struct list *l;

	lock_take(&ch->lock);
	l = list_pop(&ch->ready);
	if (l) {
		cq = container_of(l, struct cq, waiting);
		if (--cq->events)
			list_append(&ch->ready, l);
		cq_front_of(ibv_cq_ex_to_cq(&cq->base))->fetched++;
		channel_settle(ch);
	}
	lock_drop(&ch->lock);
	return cq;
}

/* The descriptor was readable, but there is no event: the program may have waited for it, so ibv_get_cq_event() must
 * neither block nor say EAGAIN. Queues an event for an armed CQ, or else for any: ibv_get_cq_event(3) allows extra
 * events, for an empty CQ. If no CQ is armed, the descriptor is parted, so that this does not repeat. False: the
 * channel has no CQ. */
static bool channel_tell_any(struct channel *ch) EXCLUDES(ch->lock)
{
	struct cq *any = NULL, *armed = NULL;

	lock_take(&ch->lock);
	list_each (l, &ch->cqs) {
		any = &container_of(l, struct cq_front, of_channel)->cq;
		armed = cq_arm(any) == CQ_UNARMED ? armed : any;
	}
	if (any)
		channel_append(ch, armed ?: any);
	lock_drop(&ch->lock);
	if (!armed)
		waitfd_part(&ch->waitfd);
	return any;
}

/* Receives, in place of the helper, what may have made the descriptor readable. False: it is not joined. */
static bool channel_look(struct channel *ch)
{
	bool joined;

	fetching = ch;
	joined = waitfd_look(&ch->waitfd);
	fetching = NULL;
	return joined;
}

/* Waits if there is no event. 0: there may be one now; or -errno. `first`: this call has not looked yet. `readable`: a
 * program that does not block may have been told so before. */
static int channel_wait(struct channel *ch, bool first, bool *readable)
{
	bool nonblocking = loop_is_nonblocking(ch->base.fd);

	if (first && nonblocking)
		*readable = waitfd_is_readable(&ch->waitfd);
	if (first && channel_look(ch))
		return 0;
	if (!first && !answers)
		waitfd_send(&ch->waitfd);
	answers = false;
	if (nonblocking) {
		atomic_store_explicit(&ch->found, FOUND_SURE, memory_order_relaxed);
		if (first)
			loop_progress();
		if (first || waitfd_settle(&ch->waitfd))
			return 0;
		waitfd_forget(&ch->waitfd); /* what this call received */
		return *readable && channel_tell_any(ch) ? 0 : -EAGAIN;
	}
	if (waitfd_was_rung(&ch->waitfd) && channel_tell_any(ch))
		return 0;
	atomic_store_explicit(&ch->found, 0, memory_order_relaxed);
	waitfd_part(&ch->waitfd);
	if (hooks_any())
		check_blocks(&ch->base);
	return loop_wait(ch->events);
}

PUBLIC int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct channel *ch = (struct channel *)channel;
	bool readable = false;

	if (hooks_any())
		check_waited(channel);
	for (bool first = true;; first = !first) {
		struct cq *got = channel_fetch(ch);
		int error;

		if (got) {
			answers = true;
			*cq = ibv_cq_ex_to_cq(&got->base);
			*cq_context = got->base.cq_context;
			msan_wrote(cq, sizeof(*cq));
			msan_wrote(cq_context, sizeof(*cq_context));
			if (hooks_any())
				check_fetched(*cq);
			if (first)
				channel_found(ch);
			return 0;
		}
		error = channel_wait(ch, first, &readable);
		if (error)
			return fail_minus(-error);
	}
}

PUBLIC void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

void channel_forget(struct channel *ch, struct cq *cq)
{
	struct ibv_cq *base = ibv_cq_ex_to_cq(&cq->base);
	uint32_t fetched;

	if (hca_is_inert(cq->hca)) /* what another thread has fetched is not acknowledged here */
		return;
	lock_take(&ch->lock);
	list_remove(&cq_front_of(base)->of_channel); /* no more events of it: channel_tell_any() */
	if (cq->events) {
		list_remove(&cq->waiting);
		cq->events = 0;
		channel_settle(ch);
	}
	fetched = cq_front_of(base)->fetched;
	lock_drop(&ch->lock);
	pthread_mutex_lock(&base->mutex);
	if (hooks_any() && base->comp_events_completed != fetched)
		check_unacknowledged("ibv_destroy_cq()", &(struct awaited){&base->comp_events_completed, fetched,
									   &base->cond, &base->mutex});
	while (base->comp_events_completed != fetched)
		pthread_cond_wait(&base->cond, &base->mutex);
	pthread_mutex_unlock(&base->mutex);
}
