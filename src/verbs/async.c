/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events: a queue per context, and an eventfd that is readable while the queue is not empty. */
#include "verbs/async.h"

#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/msan.h"
#include "check/events.h"
#include "device/front.h"
#include "device/monitor.h"
#include "fault/inject.h"
#include "progress/wait.h"
#include "verbs/context.h"
#include "verbs/cq_front.h"

struct event {
	struct list link;
	bool again; /* the second copy of an event that a fault rule reports twice */
	struct ibv_async_event what;
};

enum about {
	ABOUT_PORT,
	ABOUT_CQ,
	ABOUT_QP,
	ABOUT_SRQ,
};

/* The type of an event's element; events that are not listed are about the port or the device. */
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
	[IBV_EVENT_SRQ_ERR] = ABOUT_SRQ,
	[IBV_EVENT_SRQ_LIMIT_REACHED] = ABOUT_SRQ,
	[IBV_EVENT_WQ_FATAL] = ABOUT_PORT,
};

bool async_is_of_qp(int type)
{
	return (unsigned)type < ARRAY_SIZE(about) && about[type] == ABOUT_QP;
}

static void async_tell(struct context *c, struct ibv_async_event what) EXCLUDES(c->lock)
{
	struct event *e = malloc(sizeof(*e));

	if (!e)
		return; /* no memory: the event is lost, as in the kernel */
	*e = (struct event){.what = what};
	lock_take(&c->lock);
	list_append(&c->events, &e->link);
	eventfd_write(c->verbs.context.async_fd, 1);
	lock_drop(&c->lock);
}

/* Call when the queue may have become empty: then reads the eventfd, so that it is not readable. */
static void async_settle(struct context *c) REQUIRES(c->lock)
{
	eventfd_t count;

	if (list_empty(&c->events))
		eventfd_read(c->verbs.context.async_fd, &count);
}

void async_event(struct context *c, enum ibv_event_type type)
{
	async_tell(c, (struct ibv_async_event){.element.port_num = PORT, .event_type = type});
}

void async_cq_error(struct cq *cq)
{
	async_tell(context_of(cq->base.context),
		   (struct ibv_async_event){.element.cq = ibv_cq_ex_to_cq(&cq->base), .event_type = IBV_EVENT_CQ_ERR});
}

void async_tell_qp(struct ibv_qp *qp, enum ibv_event_type type)
{
	async_tell(context_of(qp->context), (struct ibv_async_event){.element.qp = qp, .event_type = type});
}

void async_qp_event(struct qp *qp, enum ibv_event_type type)
{
	if (qp->verbs.wq) /* a work queue: the application does not know its QP, and IBV_EVENT_WQ_FATAL belongs to no
		       queue here */
		return;
	if (!qp->xrc || !qp->xrc->is_closed)
		async_tell_qp(&qp->base, type);
	if (!qp->xrc)
		return;
	list_each_safe (l, &qp->xrc->openers) {
		struct xrc_opener *o = container_of(l, struct xrc_opener, link);

		o->tell(o, type);
	}
}

void async_srq_event(struct srq *srq, enum ibv_event_type type)
{
	async_tell(context_of(srq->base.context),
		   (struct ibv_async_event){.element.srq = &srq->base, .event_type = type});
}

/* The event counters of an object. The object is freed only after all fetched events are acknowledged. */
struct account {
	uint32_t *fetched;	/* NULL: the port has no counters. Guarded by context->lock */
	uint32_t *acknowledged; /* guarded by the mutex */
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
};

static struct account account_of(enum about kind, void *object)
{
	struct ibv_cq *cq = object;
	struct qp *qp = object;
	struct srq *srq = object;

	switch (kind) {
	case ABOUT_CQ:
		return (struct account){&cq_front_of(cq)->async_fetched, &cq->async_events_completed, &cq->mutex,
					&cq->cond};
	case ABOUT_QP:
		return (struct account){&qp->verbs.events, &qp->base.events_completed, &qp->base.mutex, &qp->base.cond};
	case ABOUT_SRQ:
		return (struct account){&srq->events, &srq->base.events_completed, &srq->base.mutex, &srq->base.cond};
	case ABOUT_PORT:
		break;
	}
	return (struct account){0};
}

static void *object_of(const struct ibv_async_event *e)
{
	return e->element.cq; /* valid for each member of the union of pointers; not used for the port number */
}

static void count_fetched(const struct ibv_async_event *e)
{
	struct account a = account_of(about[e->event_type], object_of(e));

	if (a.fetched)
		++*a.fetched;
}

/* Whether a fault rule reports the event a second time. Events of ports and devices, and IBV_EVENT_COMM_EST, may come
 * more than once; events that end something come once. */
static bool is_told_again(const struct event *e)
{
	enum ibv_event_type type = e->what.event_type;

	return hooks_any() && !e->again && (about[type] == ABOUT_PORT || type == IBV_EVENT_COMM_EST) &&
	       inject_repeats();
}

static bool async_fetch(struct context *c, struct ibv_async_event *what) EXCLUDES(c->lock)
{
	struct event *e = NULL;
	struct list *l;

	lock_take(&c->lock);
	l = list_pop(&c->events);
	if (l) {
		e = container_of(l, struct event, link);
		*what = e->what;
		count_fetched(what);
		if (is_told_again(e)) {
			e->again = true;
			list_append(&c->events, &e->link);
			e = NULL;
		}
		async_settle(c);
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
		if (async_fetch(c, event)) {
			msan_wrote(event, sizeof(*event));
			return 0;
		}
		error = loop_wait(context->async_fd);
		if (error)
			return fail_minus(-error);
	}
}

PUBLIC void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct account a;

	if ((size_t)event->event_type >= ARRAY_SIZE(about))
		return;
	a = account_of(about[event->event_type], object_of(event));
	if (!a.fetched)
		return;
	pthread_mutex_lock(a.mutex);
	++*a.acknowledged;
	pthread_cond_signal(a.cond);
	pthread_mutex_unlock(a.mutex);
}

/* Drops the queued events of an object; NULL: all events. */
static void async_drop(struct context *c, enum about kind, const void *object) REQUIRES(c->lock)
{
	bool any = !list_empty(&c->events);

	list_each_safe (l, &c->events) {
		struct event *e = container_of(l, struct event, link);

		if (object && (about[e->what.event_type] != kind || object_of(&e->what) != object))
			continue;
		list_remove(l);
		free(e);
	}
	if (any)
		async_settle(c);
}

void async_forget_all(struct context *c)
{
	lock_take(&c->lock);
	async_drop(c, ABOUT_PORT, NULL);
	lock_drop(&c->lock);
}

static void async_forget(struct context *c, enum about kind, void *object)
{
	struct account a = account_of(kind, object);
	uint32_t fetched;

	if (hca_is_inert(c->hca)) /* what another thread has fetched is not acknowledged here */
		return;
	lock_take(&c->lock);
	async_drop(c, kind, object);
	fetched = *a.fetched;
	lock_drop(&c->lock);
	pthread_mutex_lock(a.mutex);
	if (hooks_any() && *a.acknowledged != fetched)
		check_unacknowledged("the destruction of what an asynchronous event is about",
				     &(struct awaited){a.acknowledged, fetched, a.cond, a.mutex});
	while (*a.acknowledged != fetched)
		pthread_cond_wait(a.cond, a.mutex);
	pthread_mutex_unlock(a.mutex);
}

void async_forget_cq(struct context *c, struct cq *cq)
{
	async_forget(c, ABOUT_CQ, cq);
}

void async_forget_qp(struct context *c, struct qp *qp)
{
	async_forget(c, ABOUT_QP, qp);
}

void async_forget_srq(struct context *c, struct srq *srq)
{
	async_forget(c, ABOUT_SRQ, srq);
}
