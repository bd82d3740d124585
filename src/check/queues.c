/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/queues.h"

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/list.h"
#include "check/objects.h"
#include "object/qp.h"

#define NUMBERS 1024

static struct object *by_number[NUMBERS]; /* QPs; guarded by objects_lock */

static struct object **number_link(uint32_t qpn)
{
	struct object **link = &by_number[qpn % NUMBERS];

	while (*link && ((const struct ibv_qp *)(*link)->object)->qp_num != qpn)
		link = &(*link)->queues->next;
	return link;
}

static void open_qp_queues(struct object *o) REQUIRES(objects_lock)
{
	const struct qp *qp = o->object;
	struct queues *q = o->queues;

	q->qp = qp;
	q->depth = qp->cap.max_send_wr;
	q->signals_all = qp->sig_all;
	q->send_cq = object_find(CHECK_CQ, qp->send_cq);
	q->receive_cq = object_find(CHECK_CQ, qp->recv_cq);
	q->next = by_number[qp->base.qp_num % NUMBERS];
	by_number[qp->base.qp_num % NUMBERS] = o;
}

void queues_open(struct object *o)
{
	if (o->kind == CHECK_CQ)
		o->watch = calloc(1, sizeof(*o->watch));
	if (o->watch)
		o->watch->by = pthread_self();
	if (o->kind != CHECK_QP && o->kind != CHECK_SRQ)
		return;
	o->queues = calloc(1, sizeof(*o->queues));
	if (!o->queues)
		return;
	list_init(&o->queues->sends);
	list_init(&o->queues->receives);
	list_init(&o->queues->brings);
	list_init(&o->queues->racing);
	if (o->kind == CHECK_QP)
		open_qp_queues(o);
}

void queues_close(struct object *o)
{
	if (o->watch && !atomic_load_explicit(&o->watch->pollers, memory_order_acquire)) /* pairs with poll_ends() */
		free(o->watch);
	if (!o->queues)
		return;
	list_remove(&o->queues->brings);
	list_remove(&o->queues->racing);
	if (o->kind == CHECK_QP)
		*number_link(((const struct ibv_qp *)o->object)->qp_num) = o->queues->next;
	free(o->queues);
}

struct object *queues_find(enum check_kind kind, const void *object)
{
	struct object *o = object_find(kind, object);

	return o && o->queues ? o : NULL;
}

struct queues *queues_of_number(uint32_t qpn)
{
	const struct object *o = *number_link(qpn);

	return o ? o->queues : NULL;
}

struct object *queues_object(uint32_t qpn)
{
	return *number_link(qpn);
}
