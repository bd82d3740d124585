/* Asynchronous events: a queue per context, and an eventfd that is readable while the queue is not empty.
 * SPDX-License-Identifier: BSD-2-Clause */
#include "loop/loop.h"
#include "verbs/context.h"
#include "verbs/cq.h"

#include <stdlib.h>
#include <sys/eventfd.h>

struct event {
	struct list link;
	struct ibv_async_event what;
};

enum about {
	ABOUT_PORT,
	ABOUT_CQ,
	ABOUT_QP,
};

/* What the element of an event is; those not listed are about the port or the device. */
static const enum about about[] = {
	[IBV_EVENT_CQ_ERR] = ABOUT_CQ,
	[IBV_EVENT_QP_FATAL] = ABOUT_QP,
	[IBV_EVENT_QP_REQ_ERR] = ABOUT_QP,
	[IBV_EVENT_QP_ACCESS_ERR] = ABOUT_QP,
	[IBV_EVENT_COMM_EST] = ABOUT_QP,
	[IBV_EVENT_SQ_DRAINED] = ABOUT_QP,
	[IBV_EVENT_PATH_MIG] = ABOUT_QP,
	[IBV_EVENT_PATH_MIG_ERR] = ABOUT_QP,
	[IBV_EVENT_QP_LAST_WQE_REACHED] = ABOUT_QP,
	[IBV_EVENT_WQ_FATAL] = ABOUT_PORT,
};

static void tell(struct context *c, struct ibv_async_event what) EXCLUDES(c->lock)
{
	struct event *e = malloc(sizeof(*e));

	if (!e)
		return; /* as the kernel does when it finds no memory for an event */
	e->what = what;
	lock_take(&c->lock);
	list_append(&c->events, &e->link);
	eventfd_write(c->verbs.context.async_fd, 1);
	lock_drop(&c->lock);
}

/* Called when the queue may have become empty: the eventfd is read then, so that it is not readable. */
static void settle(struct context *c) REQUIRES(c->lock)
{
	eventfd_t count;

	if (list_empty(&c->events))
		eventfd_read(c->verbs.context.async_fd, &count);
}

void async_event(struct context *c, enum ibv_event_type type)
{
	tell(c, (struct ibv_async_event){.element.port_num = PORT, .event_type = type});
}

void async_cq_error(struct cq *cq)
{
	tell(context_of(cq->base.context), (struct ibv_async_event){.element.cq = ibv_cq_ex_to_cq(&cq->base),
								    .event_type = IBV_EVENT_CQ_ERR});
}

void async_qp_event(struct qp *qp, enum ibv_event_type type)
{
	tell(context_of(qp->base.context),
	     (struct ibv_async_event){.element.qp = &qp->base, .event_type = type});
}

static void count_fetched(const struct ibv_async_event *e)
{
	if (about[e->event_type] == ABOUT_CQ)
		cq_front_of(e->element.cq)->async_fetched++;
	else if (about[e->event_type] == ABOUT_QP)
		((struct qp *)e->element.qp)->events++;
}

static bool fetch(struct context *c, struct ibv_async_event *what) EXCLUDES(c->lock)
{
	struct event *e = NULL;
	struct list *l;

	lock_take(&c->lock);
	l = list_pop(&c->events);
	if (l) {
		e = container_of(l, struct event, link);
		*what = e->what;
		count_fetched(what);
		settle(c);
	}
	lock_drop(&c->lock);
	free(e);
	return l;
}

PUBLIC int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct context *c = context_of(context);

	for (;;) {
		int error;

		monitor_look();
		if (fetch(c, event))
			return 0;
		error = loop_wait(context->async_fd);
		if (error)
			return fail_minus(-error);
	}
}

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

PUBLIC void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;

	if ((size_t)event->event_type >= ARRAY_SIZE(about))
		return;
	if (about[event->event_type] == ABOUT_CQ)
		acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
	else if (about[event->event_type] == ABOUT_QP)
		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
}

/* Drops what is queued about that object, NULL: about all. */
static void drop(struct context *c, enum about kind, const void *object) REQUIRES(c->lock)
{
	bool any = !list_empty(&c->events);

	list_each_safe (l, &c->events) {
		struct event *e = container_of(l, struct event, link);

		if (object &&
		    (about[e->what.event_type] != kind || (const void *)e->what.element.cq != object))
			continue;
		list_remove(l);
		free(e);
	}
	if (any)
		settle(c);
}

void async_forget_all(struct context *c)
{
	lock_take(&c->lock);
	drop(c, ABOUT_PORT, NULL);
	lock_drop(&c->lock);
}

void async_forget_cq(struct context *c, struct cq *cq)
{
	struct ibv_cq *base = ibv_cq_ex_to_cq(&cq->base);
	uint32_t fetched;

	lock_take(&c->lock);
	drop(c, ABOUT_CQ, cq);
	fetched = cq_front_of(base)->async_fetched;
	lock_drop(&c->lock);
	pthread_mutex_lock(&base->mutex);
	while (base->async_events_completed != fetched)
		pthread_cond_wait(&base->cond, &base->mutex);
	pthread_mutex_unlock(&base->mutex);
}

void async_forget_qp(struct context *c, struct qp *qp)
{
	uint32_t fetched;

	lock_take(&c->lock);
	drop(c, ABOUT_QP, qp);
	fetched = qp->events;
	lock_drop(&c->lock);
	pthread_mutex_lock(&qp->base.mutex);
	while (qp->base.events_completed != fetched)
		pthread_cond_wait(&qp->base.cond, &qp->base.mutex);
	pthread_mutex_unlock(&qp->base.mutex);
}
