/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/operations.h"

#include <infiniband/verbs.h>
#include <pthread.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hooks.h"
#include "base/list.h"
#include "base/msan.h"
#include "base/plural.h"
#include "check/across.h"
#include "check/asan.h"
#include "check/buffers.h"
#include "check/events.h"
#include "check/failure.h"
#include "check/finding.h"
#include "check/lifetime.h"
#include "check/msan.h"
#include "check/objects.h"
#include "check/order.h"
#include "check/outlook.h"
#include "check/outstanding.h"
#include "check/pages.h"
#include "check/peers.h"
#include "check/placed.h"
#include "check/queues.h"
#include "check/races.h"
#include "check/request.h"
#include "check/scope.h"
#include "check/stack.h"
#include "check/tuned.h"
#include "check/watch.h"
#include "object/cq.h"
#include "object/qp.h"
#include "object/srq.h"

#define UNDEFINED 0x5a5a5a5au /* value of ibv_wc fields that are undefined after an error */

static struct ibv_context_ops next; /* replaced operations, the same of all contexts */
static bool (*receive_more)(void);  /* NULL: the adapter receives by itself */

/* ---- posts ---- */

/* Reports findings that were noted under locks. */
static void tell_found(void)
{
	pages_tell();
	watch_tell();
	msan_tell();
	across_tell();
}

/* A request sends what a READ or an atomic brings whose completion has not been polled. Behind one of the same queue
 * pair, a fence waits for it, unless the bytes are inline: these are taken at the post. */
struct early_use {
	const struct stack *read; /* post of the READ or atomic; NULL: none is used */
	uint64_t wr_id;
	bool needs_fence;
};

static struct early_use find_early_use(struct queues *q, const struct ibv_send_wr *wr, int sges) REQUIRES(objects_lock)
{
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;
	const struct request *r;

	if (!sends_bytes(wr->opcode))
		return (struct early_use){0};
	r = request_bringing(is_inline ? NULL : q, wr->sg_list, sges);
	if (r)
		return (struct early_use){r->posted, r->wr_id, false};
	if (is_inline)
		return (struct early_use){0};
	list_each_safe (l, &q->sends) {
		r = container_of(l, struct request, link);
		if (q->bringing && r->brings && request_overlaps(r, wr->sg_list, sges))
			return (struct early_use){r->posted, r->wr_id, true};
	}
	return (struct early_use){0};
}

static void report_early_use(const struct ibv_qp *qp, const struct ibv_send_wr *wr, const struct early_use *use,
			     const struct stack *posted)
{
	struct finding f = {.class = CHECK_HABITS,
			    .name = use->needs_fence ? "fence-missing" : "used-in-flight",
			    .at = {{"posted", posted}, {"the READ or atomic was posted", use->read}}};

	if (!use->read || (use->needs_fence && wr->send_flags & IBV_SEND_FENCE))
		return;
	if (use->needs_fence) {
		f.remedy = "set IBV_SEND_FENCE, or poll the completion of the READ or atomic first";
		snprintf(f.text, sizeof(f.text),
			 "QP 0x%x: a request sends memory that a READ or an atomic before it has not brought yet",
			 qp->qp_num);
	} else {
		f.remedy = "poll the completion of the READ or atomic first; a fence does not wait for it";
		snprintf(f.text, sizeof(f.text),
			 "QP 0x%x: a request (wr_id 0x%" PRIx64
			 ") sends %smemory of a READ or an atomic (wr_id 0x%" PRIx64
			 ") whose completion was not polled",
			 qp->qp_num, wr->wr_id, wr->send_flags & IBV_SEND_INLINE ? "inline " : "", use->wr_id);
	}
	finding_report(&f);
}

void check_takes_inline(const struct ibv_qp *qp, uint64_t wr_id, const struct ibv_data_buf *list, size_t count)
{
	struct ibv_send_wr wr = {.wr_id = wr_id, .send_flags = IBV_SEND_INLINE, .opcode = IBV_WR_SEND};
	const struct stack *posted = check_is_paused() || !check_wants(CHECK_HABITS) ? NULL : stack_here();
	struct early_use use = {0};

	for (size_t i = 0; posted && i < count && !use.read; i++) {
		wr.sg_list = &(struct ibv_sge){.addr = (uintptr_t)list[i].addr, .length = (uint32_t)list[i].length};
		lock_take(&objects_lock);
		use = find_early_use(NULL, &wr, 1);
		lock_drop(&objects_lock);
	}
	report_early_use(qp, &wr, &use, posted);
}

static void note_send(const struct ibv_qp *qp, const struct ibv_send_wr *wr, const struct stack *posted)
{
	int sges = sges_of(wr->sg_list, wr->num_sge, ((const struct qp *)qp)->cap.max_send_sge);
	struct request *r = request_make(posted, wr->wr_id, wr->sg_list, wr->send_flags & IBV_SEND_INLINE ? 0 : sges);
	struct early_use use = {0};
	struct object *o;
	struct race race;
	bool races;

	if (!r)
		return;
	r->is_send = true;
	r->opcode = wr->opcode;
	r->qpn = qp->qp_num;
	r->brings = brings_bytes(wr->opcode);
	r->ah = qp->qp_type == IBV_QPT_UD ? wr->wr.ud.ah : NULL;
	buffers_begin(r);
	asan_look(r);
	order_uses(((const struct qp *)qp)->hca, r);
	lock_take(&objects_lock);
	o = queues_find(CHECK_QP, qp);
	if (o)
		use = find_early_use(o->queues, wr, sges);
	r->has_digest &= !use.read; /* the READ will change the bytes */
	r->answers = o ? o->queues->answers : 0;
	races = o && check_wants(CHECK_RACES) && races_find(o, r, wr, &race);
	if (o)
		request_begin(o, r,
			      o->queues->signals_all || (wr->send_flags & IBV_SEND_SIGNALED) ? o->queues->send_cq
											     : NULL);
	lock_drop(&objects_lock);
	if (!o)
		free(r);
	if (check_wants(CHECK_HABITS))
		report_early_use(qp, wr, &use, posted);
	if (races)
		races_report(&race);
}

static void after_send(const struct ibv_qp *qp, const struct ibv_send_wr *unposted, const struct stack *posted)
{
	struct outlook l = {0};
	struct object *o;
	uint32_t count = 0;

	for (; unposted; unposted = unposted->next)
		count++;
	lock_take(&objects_lock);
	o = queues_find(CHECK_QP, qp);
	if (o) {
		requests_take_back(o, count, true);
		requests_posted(o->queues);
		l = outlook_of(o, o->queues->send_cq);
	}
	lock_drop(&objects_lock);
	if (!o)
		check_dead(CHECK_QP, qp, "posted to");
	tell_found();
	outlook_report(&l, posted);
}

static int check_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	const struct stack *posted = check_is_paused() ? NULL : stack_here();
	int error;

	if (!posted)
		msan_expects_sent(wr);
	for (const struct ibv_send_wr *w = wr; posted && w; w = w->next) {
		if (qp->qp_type == IBV_QPT_UD && w->wr.ud.ah && !check_knows(CHECK_AH, w->wr.ud.ah))
			check_dead(CHECK_AH, w->wr.ud.ah, "posted with");
		msan_look(qp, w, posted);
		note_send(qp, w, posted);
	}
	order_before_send(qp, wr);
	peers_told();
	error = next.post_send(qp, wr, bad);
	if (!posted)
		return error;
	if (error)
		msan_wrote(bad, sizeof(*bad));
	after_send(qp, error ? *bad : NULL, posted);
	return error;
}

/* The first 40 bytes of a datagram's receive are the GRH's. */
static void look_for_grh(const void *queue, const struct ibv_recv_wr *wr, const struct stack *posted)
{
	struct finding f = {.class = CHECK_HABITS,
			    .name = "no-room-for-grh",
			    .remedy = "post 40 bytes more than the longest message, and look for it behind them",
			    .at = {{"posted", posted}}};
	const struct ibv_qp *qp = queue;
	uint64_t length = 0;

	if (qp->qp_type != IBV_QPT_UD || !check_wants(CHECK_HABITS))
		return;
	for (int i = 0; i < sges_of(wr->sg_list, wr->num_sge, SGES_MOST); i++)
		length += wr->sg_list[i].length;
	if (length >= sizeof(struct ibv_grh))
		return;
	snprintf(f.text, sizeof(f.text),
		 "UD QP 0x%x: a receive of %" PRIu64 " byte%s (wr_id 0x%" PRIx64
		 ") has no room for the GRH, so no message fits",
		 qp->qp_num, length, plural(length), wr->wr_id);
	finding_report(&f);
}

static void note_receive(enum check_kind kind, const void *queue, const struct ibv_recv_wr *wr,
			 const struct stack *posted)
{
	/* not known of another adapter's SRQ */
	uint32_t most = kind == CHECK_QP ? ((const struct qp *)queue)->cap.max_recv_sge
					 : ((const struct srq *)queue)->rq.max_sge ?: SGES_MOST;
	struct request *r = request_make(posted, wr->wr_id, wr->sg_list, sges_of(wr->sg_list, wr->num_sge, most));
	struct object *o;

	if (!r)
		return;
	r->brings = true;
	buffers_begin(r);
	asan_look(r);
	order_uses(kind == CHECK_QP ? ((const struct qp *)queue)->hca : ((const struct srq *)queue)->hca, r);
	lock_take(&objects_lock);
	o = queues_find(kind, queue);
	if (o)
		request_begin(o, r, o->queues->receive_cq);
	lock_drop(&objects_lock);
	if (!o)
		free(r);
}

static void after_receive(enum check_kind kind, const void *queue, const struct ibv_recv_wr *unposted,
			  const struct stack *posted)
{
	struct outlook l = {0};
	struct object *o;
	uint32_t count = 0;

	for (; unposted; unposted = unposted->next)
		count++;
	lock_take(&objects_lock);
	o = queues_find(kind, queue);
	if (o) {
		requests_take_back(o, count, false);
		l = outlook_of(o, o->queues->receive_cq);
	}
	lock_drop(&objects_lock);
	l.depth = 0;
	if (!o)
		check_dead(kind, queue, "posted to");
	tell_found();
	outlook_report(&l, posted);
}

/* Begins receives that are about to be posted. Returns the stack, or NULL if they are not followed. */
static const struct stack *before_receives(enum check_kind kind, const void *queue, const struct ibv_recv_wr *wr)
{
	const struct stack *posted = check_is_paused() ? NULL : stack_here();

	if (!posted)
		msan_expects_receives(wr);
	for (; posted && wr; wr = wr->next) {
		if (kind == CHECK_QP)
			look_for_grh(queue, wr, posted);
		note_receive(kind, queue, wr, posted);
	}
	order_before_receive(queue);
	peers_told();
	return posted;
}

/* Returns `error`. */
static int after_receives(enum check_kind kind, const void *queue, struct ibv_recv_wr **bad, int error,
			  const struct stack *posted)
{
	if (!posted)
		return error;
	if (error)
		msan_wrote(bad, sizeof(*bad));
	after_receive(kind, queue, error ? *bad : NULL, posted);
	return error;
}

static int check_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	const struct stack *posted = before_receives(CHECK_QP, qp, wr);

	return after_receives(CHECK_QP, qp, bad, next.post_recv(qp, wr, bad), posted);
}

static int check_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	const struct stack *posted = before_receives(CHECK_SRQ, srq, wr);

	return after_receives(CHECK_SRQ, srq, bad, next.post_srq_recv(srq, wr, bad), posted);
}

/* ---- polls ---- */

/* The first request with that wr_id that can have this completion; NULL if it was posted before the check. */
static struct request *find_request(struct list *requests, uint64_t wr_id, bool success)
{
	list_each_safe (l, requests) {
		struct request *r = container_of(l, struct request, link);

		if (r->wr_id == wr_id && (r->cq || !r->is_send || !success))
			return r;
	}
	return NULL;
}

/* Ends the request and, of a send queue, all before it. They are moved to `done`. */
static void end_up_to(struct queues *q, struct request *r, struct list *done) REQUIRES(objects_lock)
{
	bool is_last = !r->is_send;

	while (r->is_send && !is_last) {
		struct request *first = container_of(q->sends.next, struct request, link);

		is_last = first == r;
		first->answers = q->answers - first->answers;
		if (first->accesses)
			across_done(first);
		request_end(q, first);
		list_append(done, &first->link);
	}
	if (!r->is_send) {
		request_end(q, r);
		list_append(done, &r->link);
	}
}

static struct queues *receives_of(struct object *o) REQUIRES(objects_lock)
{
	const struct qp *qp = o->object;
	struct object *srq = qp->srq ? object_find(CHECK_SRQ, qp->srq) : NULL;

	return srq ? srq->queues : o->queues;
}

static void order_of(const struct qp *qp, bool is_receive) REQUIRES(objects_lock)
{
	const void *queue = qp->srq ? (const void *)qp->srq : qp;

	order_after(&qp->base, is_receive ? queue : NULL);
	if (is_receive)
		peers_heard(qp->base.qp_num);
	else if (queues_of_number(qp->attr.dest_qp_num))
		peers_done(qp->attr.dest_qp_num);
}

/* Notes that a receive, or the result of a READ or an atomic, was polled. */
static void note_heard(const struct object *o, uint32_t bringing_before, bool is_receive) REQUIRES(objects_lock)
{
	if (is_receive) {
		o->queues->answers++;
		races_heard(o->object, true);
	} else if (o->queues->bringing < bringing_before) {
		races_heard_all();
		peers_settle();
	}
}

/* A receive of any SRQ: the one that a message to an XRC target names is not known here. */
static struct request *find_shared(struct queues **q, uint64_t wr_id) REQUIRES(objects_lock)
{
	struct request *r = NULL;

	for (const struct object *o = objects_next(NULL); o && !r; o = objects_next(o))
		if (o->kind == CHECK_SRQ && o->queues) {
			*q = o->queues;
			r = find_request(&o->queues->receives, wr_id, true);
		}
	return r;
}

/* Ends the request that has completed, and what is behind it. True if the queue pair is not known to have one peer. */
static bool settle(uint32_t qpn, uint64_t wr_id, bool success, bool is_receive)
{
	uint32_t bringing;
	struct request *r = NULL;
	bool is_datagram, has_grh;
	struct queues *q;
	struct object *o;
	struct list done;

	list_init(&done);
	lock_take(&objects_lock);
	o = queues_object(qpn);
	q = o ? is_receive ? receives_of(o) : o->queues : NULL;
	is_datagram = !o || ((const struct ibv_qp *)o->object)->qp_type > IBV_QPT_UC;
	has_grh = success && is_receive && o && ((const struct ibv_qp *)o->object)->qp_type == IBV_QPT_UD;
	if (o)
		order_of(o->object, is_receive);
	bringing = o ? o->queues->bringing : 0;
	if (q)
		r = find_request(is_receive ? &q->receives : &q->sends, wr_id, success);
	if (!r && is_receive && msan_is_there())
		r = find_shared(&q, wr_id);
	if (r && check_is_through && r->brings)
		placed_request(r);
	if (r)
		end_up_to(q, r, &done);
	if (o)
		note_heard(o, bringing, is_receive);
	if (!success) /* the queue pair has stopped */
		peers_settle();
	lock_drop(&objects_lock);
	while (!list_empty(&done)) {
		r = container_of(list_pop(&done), struct request, link);
		asan_give(r);
		if (success)
			msan_brought(r);
		if (!pages_end(r) && success)
			buffers_end(r);
		if (has_grh)
			watch_datagram(r);
		free(r);
	}
	return is_datagram;
}

/* Overwrites a field that means nothing, so that a program which reads it goes wrong here, each time. */
#define SPOIL(field)                                 \
	do {                                         \
		(field) = UNDEFINED;                 \
		msan_spoil(&(field), sizeof(field)); \
	} while (0)

/* ibv_poll_cq(3) says which fields are valid after an error, and of which opcode. */
static void spoil(struct ibv_wc *wc, bool is_datagram)
{
	bool failed = wc->status != IBV_WC_SUCCESS, brings = wc->opcode & IBV_WC_RECV;

	if (failed || !(wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)))
		SPOIL(wc->imm_data);
	if (failed || !(brings || wc->opcode == IBV_WC_RDMA_READ || wc->opcode == IBV_WC_COMP_SWAP ||
			wc->opcode == IBV_WC_FETCH_ADD))
		SPOIL(wc->byte_len);
	if (failed || !brings || !is_datagram)
		SPOIL(wc->src_qp);
	if (!failed)
		return;
	SPOIL(wc->wc_flags);
	wc->opcode = (enum ibv_wc_opcode)UNDEFINED;
	msan_spoil(&wc->opcode, sizeof(wc->opcode));
}

/* Notes a poll, and begins it if it `holds` the CQ: poll_ends() ends it. NULL: the CQ is not known. */
static struct watch *note_poll(const struct ibv_cq *cq, bool holds)
{
	struct watch *w;
	struct object *o;

	failure_polls();
	tell_found();
	lock_take(&objects_lock);
	o = object_find(CHECK_CQ, cq);
	w = o ? o->watch : NULL;
	if (w) {
		w->polled = true;
		w->is_late = false;
		w->by = w->polled_by = pthread_self();
		atomic_fetch_add_explicit(&w->pollers, holds, memory_order_relaxed);
	}
	lock_drop(&objects_lock);
	return w;
}

static void poll_ends(struct watch *w)
{
	/* release: pairs with the acquire of check_destroys_cq(), which waits for it */
	if (w)
		atomic_fetch_sub_explicit(&w->pollers, 1, memory_order_release);
}

/* Polls a CQ that another thread may be about to destroy. */
static int poll_known(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	struct watch *w = note_poll(cq, true);
	int count;

	if (!w && check_dead(CHECK_CQ, cq, "polled"))
		return 0;
	count = next.poll_cq(cq, entries, wc);
	poll_ends(w);
	return count;
}

static int check_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	int count = check_is_paused() ? next.poll_cq(cq, entries, wc) : poll_known(cq, entries, wc);

	msan_polled(wc, count);
	if (check_is_paused())
		return count;
	for (int i = 0; i < count; i++) {
		bool is_datagram =
			settle(wc[i].qp_num, wc[i].wr_id, wc[i].status == IBV_WC_SUCCESS, wc[i].opcode & IBV_WC_RECV);

		if (!check_wants(CHECK_HABITS))
			continue;
		if (wc[i].status != IBV_WC_SUCCESS)
			failure_note(wc[i].qp_num, wc[i].status, wc[i].vendor_err);
		spoil(&wc[i], is_datagram);
	}
	across_tell();
	return count;
}

void check_polled_none(const struct ibv_cq *cq)
{
	if (!check_is_paused())
		note_poll(cq, false);
}

void check_polled_one(const struct ibv_cq *cq, uint32_t qpn, uint64_t wr_id, enum ibv_wc_status status, bool is_receive)
{
	if (check_is_paused())
		return;
	note_poll(cq, false);
	settle(qpn, wr_id, status == IBV_WC_SUCCESS, is_receive);
	if (status != IBV_WC_SUCCESS && check_wants(CHECK_HABITS))
		failure_note(qpn, status, 0);
	across_tell();
}

/* True if completions of an empty CQ may be on their way, between the last poll and the arming. */
static bool may_be_early(const struct ibv_cq *cq)
{
	struct object *o;
	bool may;

	lock_take(&objects_lock);
	o = object_find(CHECK_CQ, cq);
	may = o && o->uses[1] && o->watch && o->watch->polled && o->watch->expected && o->watch->armings < ARM_WAITS;
	if (may)
		o->watch->armings++;
	lock_drop(&objects_lock);
	return may;
}

/* What has come by now is in the CQ before it is armed. Adapters receive by themselves; without this, a program that
 * loses a wake-up there would seldom do so here. */
static void settle_early(const struct ibv_cq *cq)
{
	uint64_t end = clock_now() + ARM_WAIT;

	if (!receive_more || !check_wants(CHECK_HABITS) || !may_be_early(cq))
		return;
	while (cq_looks_empty((const struct cq *)cq) && clock_now() < end)
		receive_more();
}

static int check_req_notify_cq(struct ibv_cq *cq, int solicited)
{
	const struct stack *armed = check_is_paused() ? NULL : stack_here();

	if (!armed)
		return next.req_notify_cq(cq, solicited);
	settle_early(cq);
	check_arms(cq, solicited, armed);
	return next.req_notify_cq(cq, solicited);
}

void check_operations(struct ibv_context_ops *ops, int (*lock_file)(void), bool (*progress)(void))
{
	if (!hook_is_on(HOOK_CHECK) ||
	    !(check_wants(CHECK_HABITS) || check_wants(CHECK_BUFFERS) || check_wants(CHECK_RACES) || msan_is_there()))
		return;
	if (check_wants(CHECK_RACES))
		across_start(lock_file);
	receive_more = progress;
	next = *ops;
	ops->post_send = check_post_send;
	ops->post_recv = check_post_recv;
	ops->post_srq_recv = check_post_srq_recv;
	ops->poll_cq = check_poll_cq;
	ops->req_notify_cq = check_req_notify_cq;
}
