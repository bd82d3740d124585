/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/outstanding.h"

#include <stdlib.h>

#include "base/list.h"
#include "check/across.h"
#include "check/asan.h"
#include "check/objects.h"
#include "check/pages.h"
#include "check/queues.h"
#include "check/request.h"
#include "check/tuned.h"
#include "check/watch.h"

static struct list bringing;	  /* queues with READs or atomics; guarded by objects_lock */
static _Thread_local char thread; /* its address stands for the thread that posts */

void request_end(struct queues *q, struct request *r)
{
	list_remove(&r->link);
	if (r->cq && r->cq->watch)
		r->cq->watch->expected--;
	q->send_count -= r->is_send;
	q->signalled -= r->is_send && r->cq;
	q->bringing -= r->is_send && r->brings;
	if (!q->bringing) {
		list_remove(&q->brings);
		list_init(&q->brings);
	}
	if (r->accesses)
		across_end(r);
	watch_end(r);
}

/* Gives the memory back to the program and frees the request. */
static void request_free(struct request *r)
{
	asan_give(r);
	pages_end(r);
	free(r);
}

static void forget_all(struct queues *q, struct list *requests) REQUIRES(objects_lock)
{
	while (!list_empty(requests)) {
		struct request *r = container_of(requests->next, struct request, link);

		request_end(q, r);
		request_free(r);
	}
}

void request_begin(struct object *o, struct request *r, struct object *cq)
{
	struct queues *q = o->queues;

	if (!bringing.next)
		list_init(&bringing);
	r->cq = cq;
	if (cq && cq->watch)
		cq->watch->expected++;
	list_append(r->is_send ? &q->sends : &q->receives, &r->link);
	q->send_count += r->is_send;
	q->signalled += r->is_send && cq;
	if (r->is_send && r->brings && !q->bringing++)
		list_append(&bringing, &q->brings);
	asan_need(r);
	watch_need(r);
	if (r->is_send) {
		r->poster = &thread;
		return;
	}
	asan_begin(q, r);
	pages_begin(r);
	watch_begin(r);
}

const struct request *request_bringing(const struct queues *own, const struct ibv_sge *sge, int sges)
{
	if (!bringing.next)
		return NULL;
	list_each_safe (l, &bringing) {
		struct queues *q = container_of(l, struct queues, brings);

		if (q == own)
			continue;
		list_each_safe (k, &q->sends) {
			const struct request *r = container_of(k, struct request, link);

			if (r->brings && request_overlaps(r, sge, sges))
				return r;
		}
	}
	return NULL;
}

/* Requests of a failed post were not posted: those from the end back to the failed one. */
void requests_take_back(struct object *o, uint32_t count, bool is_send)
{
	struct list *requests = is_send ? &o->queues->sends : &o->queues->receives;

	while (count-- && !list_empty(requests)) {
		struct request *r = container_of(requests->prev, struct request, link);

		request_end(o->queues, r);
		request_free(r);
	}
}

/* Watches the first READ or atomic of the last requests, which this thread has posted, mostly in one list. */
static void watch_one(const struct queues *q) REQUIRES(objects_lock)
{
	struct request *first = NULL;
	uint32_t left = q->bringing ? WATCH_LIST : 0;

	for (const struct list *l = q->sends.prev; left-- && l != &q->sends; l = l->prev) {
		struct request *r = container_of(l, struct request, link);

		if (r->poster != &thread)
			break;
		first = r->brings ? r : first;
	}
	if (first)
		watch_begin(first);
}

/* A request may complete during its post, so its memory is taken from the program only now. */
void requests_posted(struct queues *q)
{
	watch_one(q);
	if (!pages_are_taken() && !(asan_is_there() && q->bringing))
		return;
	list_each_safe (l, &q->sends) {
		struct request *r = container_of(l, struct request, link);

		if (r->poster != &thread)
			continue;
		r->poster = NULL;
		asan_begin(q, r);
		pages_begin(r);
	}
}

void requests_forget(struct queues *q)
{
	forget_all(q, &q->sends);
	forget_all(q, &q->receives);
}
