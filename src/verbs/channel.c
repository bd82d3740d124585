/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels: see channel.h. */
#include "verbs/channel.h"
#include "fault/inject.h"
#include "check/check.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "loop/loop.h"
#include "verbs/context.h"
#include "verbs/cq.h"

PUBLIC struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *ch = inject_call(CALL_ibv_create_comp_channel) ? NULL : calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	list_init(&ch->ready);
	ch->base.context = context;
	ch->base.fd = eventfd(0, EFD_CLOEXEC);
	if (ch->base.fd < 0) {
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
	atomic_fetch_sub_explicit(&context_of(channel->context)->objects, 1, memory_order_release);
	close(channel->fd);
	free(ch);
	return 0;
}

void channel_join(struct channel *ch)
{
	lock_take(&ch->lock);
	ch->base.refcnt++;
	lock_drop(&ch->lock);
}

void channel_leave(struct channel *ch)
{
	lock_take(&ch->lock);
	ch->base.refcnt--;
	lock_drop(&ch->lock);
}

/* Call when the queue may have become empty: then reads the eventfd, so that it is not readable. */
static void verbs_channel_settle(struct channel *ch) REQUIRES(ch->lock)
{
	eventfd_t count;

	if (list_empty(&ch->ready))
		eventfd_read(ch->base.fd, &count);
}

void channel_cq_event(struct cq *cq)
{
	struct channel *ch = cq->channel;

	if (cq->notify)
		cq->notify(cq);
	if (!ch)
		return;
	lock_take(&ch->lock);
	if (cq->events++ == 0)
		list_append(&ch->ready, &cq->waiting);
	/* a write for each event, not only for the first: an edge-triggered epoll then reports each event, as with the
	 * kernel */
	eventfd_write(ch->base.fd, 1);
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
		verbs_channel_settle(ch);
	}
	lock_drop(&ch->lock);
	return cq;
}

PUBLIC int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct channel *ch = (struct channel *)channel;

	for (;;) {
		struct cq *got = channel_fetch(ch);
		int error;

		if (got) {
			*cq = ibv_cq_ex_to_cq(&got->base);
			*cq_context = got->base.cq_context;
			return 0;
		}
		error = loop_wait(channel->fd);
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

	lock_take(&ch->lock);
	if (cq->events) {
		list_remove(&cq->waiting);
		cq->events = 0;
		verbs_channel_settle(ch);
	}
	fetched = cq_front_of(base)->fetched;
	lock_drop(&ch->lock);
	pthread_mutex_lock(&base->mutex);
	while (base->comp_events_completed != fetched)
		pthread_cond_wait(&base->cond, &base->mutex);
	pthread_mutex_unlock(&base->mutex);
}
