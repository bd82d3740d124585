/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: creation, polling, requests for events, destruction. */
#include "verbs/cq.h"

#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cause.h"
#include "check/lifetime.h"
#include "check/qp.h"
#include "check/objects.h"
#include "device/adapter.h"
#include "device/front.h"
#include "fault/inject.h"
#include "loop/helper.h"
#include "object/cq_poll.h"
#include "progress/poll.h"
#include "verbs/async.h"
#include "verbs/channel.h"
#include "verbs/context.h"
#include "verbs/table.h"
#include "verbs/tuned.h"

static _Atomic uint32_t cq_count;
struct lock cqs_lock = LOCK_RANKED(CQS);
static struct list cqs GUARDED_BY(cqs_lock) = {&cqs, &cqs};

void cqs_each(void (*use)(struct cq_front *f, void *arg), void *arg)
{
	lock_take(&cqs_lock);
	list_each (l, &cqs)
		use(container_of(l, struct cq_front, all), arg);
	lock_drop(&cqs_lock);
}

/* fork() copies page by page while other threads write: a CQE may be older than the tail that is behind it. */
void cqs_forget(void)
{
	list_each (l, &cqs) {
		struct cq *cq = &container_of(l, struct cq_front, all)->cq;

		lock_assert_unshared(&cq->lock);
		atomic_store_explicit(&cq->head, cq_tail(cq), memory_order_relaxed);
		atomic_store_explicit(&cq->arm, CQ_UNARMED, memory_order_relaxed);
	}
}

static int check_new_cq(const struct ibv_context *context, uint32_t cqe, const struct ibv_comp_channel *channel,
			uint32_t comp_vector)
{
	if (cqe > (uint32_t)adapter()->attr.max_cqe)
		return because(CAUSE_CREATE_LIMIT, EINVAL, "ibv_create_cq: cqe is %u, at most %d are possible", cqe,
			       adapter()->attr.max_cqe);
	if (comp_vector >= (uint32_t)context->num_comp_vectors)
		return because(CAUSE_CREATE_LIMIT, EINVAL, "ibv_create_cq: comp_vector is %u, the device has %d",
			       comp_vector, context->num_comp_vectors);
	if (channel && channel->context != context)
		return because(CAUSE_CREATE_OBJECT, EINVAL, "ibv_create_cq: the channel is of another context");
	return 0;
}

struct cq_front *cq_front_create(struct ibv_context *context, uint32_t cqe, void *cq_context,
				 struct ibv_comp_channel *channel, uint32_t comp_vector, struct pd *holder)
{
	static _Atomic uint32_t handles;
	struct context *c = context_of(context);
	struct cq_front *f;
	int error;

	error = check_new_cq(context, cqe, channel, comp_vector);
	if (error)
		return fail_null(error);
	if (!adapter_take(&cq_count, HCA_MAX_CQ))
		return fail_null(ENOMEM);
	f = calloc(1, sizeof(*f));
	if (!f)
		goto err_count;
	f->cq.holder = holder;
	error = cq_init(&f->cq, c->hca, depth_granted(cqe));
	if (error)
		goto err_free;
	f->timer = -1;
	f->cq.base.context = context;
	/* relaxed: only the number counts */
	f->cq.base.handle = f->handle = atomic_fetch_add_explicit(&handles, 1, memory_order_relaxed);
	f->cq.base.channel = channel;
	f->cq.base.cq_context = cq_context;
	f->cq.base.cqe = (int)f->cq.depth;
	pthread_mutex_init(&f->cq.base.mutex, NULL);
	pthread_cond_init(&f->cq.base.cond, NULL);
	f->cq.channel = (struct channel *)channel;
	if (channel)
		channel_join(f->cq.channel, f);
	if (holder)
		atomic_fetch_add_explicit(&holder->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->objects, 1, memory_order_relaxed);
	lock_take(&cqs_lock);
	list_append(&cqs, &f->all);
	lock_drop(&cqs_lock);
	check_made(CHECK_CQ, &f->cq.base, f->cq.depth, context, channel, holder);
	return f;

err_free:
	free(f);
err_count:
	adapter_give(&cq_count);
	return fail_null(error ? -error : ENOMEM);
}

PUBLIC struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector)
{
	struct cq_front *f;

	if (inject_call(CALL_ibv_create_cq))
		return NULL;
	if (!context || cqe < 1 || comp_vector < 0)
		return fail_null(EINVAL);
	f = cq_front_create(context, (uint32_t)cqe, cq_context, channel, (uint32_t)comp_vector, NULL);
	return f ? ibv_cq_ex_to_cq(&f->cq.base) : NULL;
}

PUBLIC int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	struct cq *c = (struct cq *)cq;
	bool allowed = cqe >= 1 && cqe <= adapter()->attr.max_cqe;
	int error;

	if (inject_call(CALL_ibv_resize_cq))
		return errno;
	error = cq_check(cq) ?: (allowed ? -cq_resize(c, depth_granted((uint32_t)cqe)) : EINVAL);
	return error ? fail(error) : 0;
}

PUBLIC int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct cq_front *f = cq_front_of(cq);
	int error = cq_check(cq);
	struct context *c;

	if (error)
		return fail(error);
	if (atomic_load_explicit(&f->cq.users, memory_order_acquire)) {
		check_busy(CHECK_CQ, cq);
		return fail(EBUSY);
	}
	if (hooks_any())
		check_destroys_cq(cq);
	c = context_of(cq->context);
	lock_take(&cqs_lock);
	list_remove(&f->all);
	lock_drop(&cqs_lock);
	if (f->timer >= 0) {
		loop_unwatch(f->timer);
		close(f->timer);
	}
	async_forget_cq(c, &f->cq);
	if (f->cq.channel) {
		channel_forget(f->cq.channel, &f->cq);
		channel_leave(f->cq.channel);
	}
	cq_fini(&f->cq);
	if (f->cq.holder)
		atomic_fetch_sub_explicit(&f->cq.holder->users, 1, memory_order_release);
	pthread_cond_destroy(&cq->cond);
	pthread_mutex_destroy(&cq->mutex);
	check_free(f);
	adapter_give(&cq_count);
	atomic_fetch_sub_explicit(&c->objects, 1, memory_order_release);
	return 0;
}

static void period_over(void *arg)
{
	struct cq_front *f = arg;
	uint64_t times;

	if (read(f->timer, &times, sizeof(times)) == sizeof(times))
		cq_release(&f->cq);
}

void cq_delayed(struct cq *cq)
{
	struct cq_front *f = cq_front_of(ibv_cq_ex_to_cq(&cq->base));
	uint16_t period = atomic_load_explicit(&f->period, memory_order_relaxed);
	struct itimerspec t = {.it_value.tv_nsec = (long)period * 1000};

	if (period)
		timerfd_settime(f->timer, 0, &t, NULL);
}

static int need_timer(struct cq_front *f)
{
	int error;

	if (f->timer >= 0)
		return 0;
	f->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (f->timer < 0)
		return errno;
	error = -loop_watch(f->timer, period_over, f);
	if (error) {
		close(f->timer);
		f->timer = -1;
	}
	return error;
}

static int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	struct cq_front *f = cq_front_of(cq);
	int error = 0;

	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return fail(EOPNOTSUPP);
	if (!(attr->attr_mask & IBV_CQ_ATTR_MODERATE))
		return 0;
	if (attr->moderate.cq_period)
		error = need_timer(f);
	if (error)
		return fail(error);
	atomic_store_explicit(&f->period, attr->moderate.cq_period, memory_order_relaxed);
	cq_moderate(&f->cq, attr->moderate.cq_count);
	return 0;
}

static _Thread_local uint32_t found;

static inline void cq_look_around(void)
{
	if (unlikely(++found % FOUND_MANY == 0))
		loop_look_around();
}

bool cq_front_await(struct cq *cq)
{
	if (!cq_looks_empty(cq)) {
		cq_look_around();
		return true;
	}
	found = 0;
	return loop_progress() && !cq_looks_empty(cq);
}

/* Neither of the next two is inlined, so that poll_cq() has no stack frame. */
static __attribute__((noinline)) int poll_for_more(struct cq *cq, int entries, struct ibv_wc *wc)
{
	struct cq_poller poller = {cq, wc, entries, 0};

	found = 0;
	if (!loop_progress_for(&poller))
		return 0;
	return poller.got || cq_looks_empty(cq) ? poller.got : cq_poll_wc(cq, entries, wc);
}

static __attribute__((noinline)) int poll_filled(struct cq *cq, int entries, struct ibv_wc *wc)
{
	int got = cq_poll_wc(cq, entries, wc); /* 0 if another thread was faster */

	cq_look_around();
	return got;
}

static int poll_cq(struct ibv_cq *base, int entries, struct ibv_wc *wc)
{
	struct cq *cq = (struct cq *)base;

	return cq_looks_empty(cq) ? poll_for_more(cq, entries, wc) : poll_filled(cq, entries, wc);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	int error = cq_check(cq);

	if (error)
		return fail(error);
	cq_request((struct cq *)cq, solicited_only);
	if (hooks_any() && inject_wakes())
		cq_tell_rest((struct cq *)cq);
	/* the caller is likely to sleep next, so deferred packets are sent now */
	if (((struct cq *)cq)->channel)
		channel_arm(((struct cq *)cq)->channel);
	else
		loop_progress();
	return 0;
}

void table_add_cq(struct verbs_context *v)
{
	v->context.ops.poll_cq = poll_cq;
	v->context.ops.req_notify_cq = req_notify_cq;
	v->modify_cq = modify_cq;
}
