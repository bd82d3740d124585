/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests from post to poll. The operations of a context are replaced by those below while a program is checked, so
 * that nothing of this is on the way of one that is not. */
#include "check/queues.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/msan.h"
#include "check/across.h"
#include "check/asan.h"
#include "check/buffers.h"
#include "check/msan.h"
#include "check/order.h"
#include "check/pages.h"
#include "check/peers.h"
#include "check/placed.h"
#include "check/races.h"
#include "object/qp.h"

#define NUMBERS	  1024
#define UNDEFINED 0x5a5a5a5au /* in fields of an ibv_wc that are undefined after an error */

static struct ibv_context_ops next;	  /* what was replaced: the same of all contexts */
static struct object *by_number[NUMBERS]; /* QPs; guarded by objects_lock */
static _Thread_local uint64_t polls;	  /* of this thread */

/* ---- objects ---- */

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
	list_init(&o->queues->racing);
	if (o->kind == CHECK_QP)
		open_qp_queues(o);
}

bool brings_bytes(unsigned opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

bool sends_bytes(unsigned opcode)
{
	return !brings_bytes(opcode) && opcode != IBV_WR_BIND_MW && opcode != IBV_WR_LOCAL_INV;
}

/* The request is not outstanding any more; the caller frees it. */
static void request_end(struct queues *q, struct request *r) REQUIRES(objects_lock)
{
	list_remove(&r->link);
	if (r->cq && r->cq->watch)
		r->cq->watch->expected--;
	q->send_count -= r->is_send;
	q->signalled -= r->is_send && r->cq;
	q->bringing -= r->is_send && brings_bytes(r->opcode);
	if (r->accesses)
		across_end(r);
}

/* Its memory is the program's again. */
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

void queues_close(struct object *o)
{
	free(o->watch);
	if (!o->queues)
		return;
	forget_all(o->queues, &o->queues->sends);
	forget_all(o->queues, &o->queues->receives);
	list_remove(&o->queues->racing);
	if (o->kind == CHECK_QP)
		*number_link(((const struct ibv_qp *)o->object)->qp_num) = o->queues->next;
	free(o->queues);
}

void check_forget_requests(const void *qp)
{
	struct object *o;

	if (check_is_paused())
		return;
	lock_take(&objects_lock);
	o = object_find(CHECK_QP, qp);
	if (o && o->queues) {
		forget_all(o->queues, &o->queues->sends);
		forget_all(o->queues, &o->queues->receives);
	}
	lock_drop(&objects_lock);
}

struct queues *queues_of_number(uint32_t qpn)
{
	const struct object *o = *number_link(qpn);

	return o ? o->queues : NULL;
}

/* ---- posts ---- */

static struct request *request_make(const struct stack *posted, uint64_t wr_id, const struct ibv_sge *sge, int sges)
{
	uint32_t count = (uint32_t)sges, all = msan_is_there() ? count : 0;
	struct request *r = calloc(1, sizeof(*r) + all * sizeof(*sge));

	if (!r)
		return NULL;
	r->all_sges = all;
	r->all = (struct ibv_sge *)(r + 1);
	r->sges = (uint8_t)min_of(count, (uint32_t)REQUEST_SGES);
	if (all)
		memcpy(r->all, sge, all * sizeof(*sge));
	if (count)
		memcpy(r->sge, sge, r->sges * sizeof(*sge));
	r->posted = posted;
	r->wr_id = wr_id;
	return r;
}

static void request_begin(struct object *o, struct request *r, struct object *cq) REQUIRES(objects_lock)
{
	struct queues *q = o->queues;

	r->cq = cq;
	if (cq && cq->watch)
		cq->watch->expected++;
	list_append(r->is_send ? &q->sends : &q->receives, &r->link);
	q->send_count += r->is_send;
	q->signalled += r->is_send && cq;
	q->bringing += r->is_send && brings_bytes(r->opcode);
	asan_need(r);
	if (r->is_send) {
		r->poster = &polls;
		return;
	}
	asan_begin(q, r);
	pages_begin(r);
}

/* What the posts so far mean. */
struct outlook {
	const struct stack *failure; /* that was polled, and not seen; else NULL */
	enum ibv_wc_status failed_status;
	uint64_t expected, entries; /* of the CQ */
	const struct stack *cq_made, *qp_made;
	uint32_t qpn;
	uint32_t depth; /* of a send queue that is full, without one that is signalled; else 0 */
};

static struct outlook outlook_of(const struct object *o, const struct object *cq) REQUIRES(objects_lock)
{
	const struct queues *q = o->queues;
	struct outlook l = {.qp_made = o->made};

	if (cq && cq->watch) {
		l.expected = cq->watch->expected;
		l.entries = cq->size;
		l.cq_made = cq->made;
	}
	if (o->kind == CHECK_QP && q->send_count >= q->depth && !q->signalled && !q->signals_all) {
		l.depth = q->depth;
		l.qpn = ((const struct ibv_qp *)o->object)->qp_num;
	}
	/* Another thread may be about to look at it, or this one, in what its last polls have returned. */
	if (q->failure && pthread_equal(q->failed_by, pthread_self()) && polls > q->failed_poll + 1) {
		l.qpn = ((const struct ibv_qp *)o->object)->qp_num;
		l.failure = q->failure;
		l.failed_status = q->failed_status;
	}
	return l;
}

static void report_overrun(const struct outlook *l, const struct stack *posted)
{
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "cq-too-small",
		.remedy = "create it with room for all requests that may be outstanding, or poll before posting more",
		.at = {{"posted", posted}, {"the completion queue was created", l->cq_made}}};

	snprintf(f.text, sizeof(f.text),
		 "a completion queue of %" PRIu64 " entries expects %" PRIu64
		 " completions: it overruns if they come before a poll",
		 l->entries, l->expected);
	finding_report(&f);
}

static void report_unsignalled(const struct outlook *l, const struct stack *posted)
{
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "never-signalled",
		.remedy = "set IBV_SEND_SIGNALED in at least one of max_send_wr requests, and poll its completion",
		.at = {{"posted", posted}, {"the queue pair was created", l->qp_made}}};

	snprintf(f.text, sizeof(f.text),
		 "all %u requests that fit into the send queue of QP 0x%x are posted, and none is signalled: nothing "
		 "can "
		 "free it",
		 l->depth, l->qpn);
	finding_report(&f);
}

static void report_ignored(const struct outlook *l, const struct stack *posted)
{
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "status-ignored",
		.remedy = "look at the status of each completion: a queue pair that has failed takes requests again "
			  "after RESET, INIT, RTR and RTS",
		.at = {{"posted", posted}, {"the completion with the error was polled", l->failure}}};

	snprintf(f.text, sizeof(f.text),
		 "QP 0x%x has failed, a completion with status %d was polled, and requests are still posted: they "
		 "will be flushed",
		 l->qpn, l->failed_status);
	finding_report(&f);
}

static void report_outlook(const struct outlook *l, const struct stack *posted)
{
	pages_tell();
	msan_tell();
	across_tell();
	if (!check_wants(CHECK_HABITS))
		return;
	if (l->expected > l->entries)
		report_overrun(l, posted);
	if (l->depth)
		report_unsignalled(l, posted);
	if (l->failure)
		report_ignored(l, posted);
}

/* Requests of a failed post were not posted: those from the end back to it. */
static void take_back(struct object *o, uint32_t count, bool is_send) REQUIRES(objects_lock)
{
	struct list *requests = is_send ? &o->queues->sends : &o->queues->receives;

	while (count-- && !list_empty(requests)) {
		struct request *r = container_of(requests->prev, struct request, link);

		request_end(o->queues, r);
		request_free(r);
	}
}

static struct object *find_queues(enum check_kind kind, const void *object) REQUIRES(objects_lock)
{
	struct object *o = object_find(kind, object);

	return o && o->queues ? o : NULL;
}

bool requests_overlap(const struct request *a, const struct request *b)
{
	for (int i = 0; i < a->sges; i++)
		for (int k = 0; k < b->sges; k++)
			if (a->sge[i].addr < b->sge[k].addr + b->sge[k].length &&
			    b->sge[k].addr < a->sge[i].addr + a->sge[i].length)
				return true;
	return false;
}

/* A READ or an atomic of the QP that brings what this request sends; NULL: there is none. */
static const struct stack *brought_by(struct queues *q, const struct request *r) REQUIRES(objects_lock)
{
	list_each_safe (l, &q->sends) {
		const struct request *before = container_of(l, struct request, link);

		if (brings_bytes(before->opcode) && requests_overlap(before, r))
			return before->posted;
	}
	return NULL;
}

static void report_fence(const struct ibv_qp *qp, const struct stack *posted, const struct stack *read)
{
	struct finding f = {.class = CHECK_HABITS,
			    .name = "fence-missing",
			    .remedy = "set IBV_SEND_FENCE, or poll the completion of the READ or atomic first",
			    .at = {{"posted", posted}, {"the READ or atomic was posted", read}}};

	snprintf(f.text, sizeof(f.text),
		 "QP 0x%x: a request sends memory that a READ or an atomic before it has not brought yet", qp->qp_num);
	finding_report(&f);
}

static void note_send(const struct ibv_qp *qp, const struct ibv_send_wr *wr, const struct stack *posted)
{
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;
	uint32_t most = ((const struct qp *)qp)->cap.max_send_sge;
	struct request *r =
		request_make(posted, wr->wr_id, wr->sg_list, is_inline ? 0 : sges_of(wr->sg_list, wr->num_sge, most));
	const struct stack *read = NULL;
	struct object *o;
	struct race race;
	bool races;

	if (!r)
		return;
	r->is_send = true;
	r->opcode = wr->opcode;
	r->qpn = qp->qp_num;
	r->brings = brings_bytes(wr->opcode);
	buffers_begin(r);
	asan_look(r);
	lock_take(&objects_lock);
	o = find_queues(CHECK_QP, qp);
	if (o && sends_bytes(wr->opcode) && o->queues->bringing)
		read = brought_by(o->queues, r);
	r->has_digest &= !read; /* that will change the bytes */
	races = o && check_wants(CHECK_RACES) && races_find(o, r, wr, &race);
	if (o)
		request_begin(o, r,
			      o->queues->signals_all || (wr->send_flags & IBV_SEND_SIGNALED) ? o->queues->send_cq
											     : NULL);
	lock_drop(&objects_lock);
	if (!o)
		free(r);
	if (read && !(wr->send_flags & IBV_SEND_FENCE) && check_wants(CHECK_HABITS))
		report_fence(qp, posted, read);
	if (races)
		races_report(&race);
}

/* A request may have been done as it was posted: so its memory is taken from the program when it is. */
static void end_posting(struct queues *q) REQUIRES(objects_lock)
{
	list_each_safe (l, &q->sends) {
		struct request *r = container_of(l, struct request, link);

		if (r->poster != &polls)
			continue;
		r->poster = NULL;
		asan_begin(q, r);
		pages_begin(r);
	}
}

static void after_send(const struct ibv_qp *qp, const struct ibv_send_wr *unposted, const struct stack *posted)
{
	struct outlook l = {0};
	struct object *o;
	uint32_t count = 0;

	for (; unposted; unposted = unposted->next)
		count++;
	lock_take(&objects_lock);
	o = find_queues(CHECK_QP, qp);
	if (o) {
		take_back(o, count, true);
		if (pages_are_taken() || (asan_is_there() && o->queues->bringing))
			end_posting(o->queues);
		l = outlook_of(o, o->queues->send_cq);
	}
	lock_drop(&objects_lock);
	if (!o)
		check_dead(CHECK_QP, qp, "posted to");
	report_outlook(&l, posted);
}

static int check_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	const struct stack *posted = check_is_paused() ? NULL : stack_near();
	int error;

	order_before_send(qp, wr);
	peers_told();
	if (!posted) {
		msan_expects_sent(wr);
		return next.post_send(qp, wr, bad);
	}
	for (const struct ibv_send_wr *w = wr; w; w = w->next) {
		msan_look(qp, w, posted);
		note_send(qp, w, posted);
	}
	error = next.post_send(qp, wr, bad);
	if (error)
		msan_wrote(bad, sizeof(*bad));
	after_send(qp, error ? *bad : NULL, posted);
	return error;
}

static void note_receive(enum check_kind kind, const void *queue, const struct ibv_recv_wr *wr,
			 const struct stack *posted)
{
	/* of an SRQ of another adapter it is not known */
	uint32_t most = kind == CHECK_QP ? ((const struct qp *)queue)->cap.max_recv_sge
					 : ((const struct srq *)queue)->rq.max_sge ?: SGES_MOST;
	struct request *r = request_make(posted, wr->wr_id, wr->sg_list, sges_of(wr->sg_list, wr->num_sge, most));
	struct object *o;

	if (!r)
		return;
	r->brings = true;
	buffers_begin(r);
	asan_look(r);
	lock_take(&objects_lock);
	o = find_queues(kind, queue);
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
	o = find_queues(kind, queue);
	if (o) {
		take_back(o, count, false);
		l = outlook_of(o, o->queues->receive_cq);
	}
	lock_drop(&objects_lock);
	l.depth = 0;
	if (!o)
		check_dead(kind, queue, "posted to");
	report_outlook(&l, posted);
}

/* Before receives are posted. The place where, or NULL: they are not followed. */
static const struct stack *before_receives(enum check_kind kind, const void *queue, const struct ibv_recv_wr *wr)
{
	const struct stack *posted = check_is_paused() ? NULL : stack_near();

	order_before_receive(queue);
	peers_told();
	if (!posted)
		msan_expects_receives(wr);
	for (; posted && wr; wr = wr->next)
		note_receive(kind, queue, wr, posted);
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

/* The first request of that number that can have this completion; NULL: it was posted before the check. */
static struct request *find_request(struct list *requests, uint64_t wr_id, bool success)
{
	list_each_safe (l, requests) {
		struct request *r = container_of(l, struct request, link);

		if (r->wr_id == wr_id && (r->cq || !r->is_send || !success))
			return r;
	}
	return NULL;
}

/* Ends the request and, of a send queue, all before it, which are moved to `done`. */
static void end_up_to(struct queues *q, struct request *r, struct list *done) REQUIRES(objects_lock)
{
	bool is_last = !r->is_send;

	while (r->is_send && !is_last) {
		struct request *first = container_of(q->sends.next, struct request, link);

		is_last = first == r;
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

/* A receive, or the result of a READ or an atomic, was polled. */
static void note_heard(const struct object *o, uint32_t bringing_before, bool is_receive) REQUIRES(objects_lock)
{
	if (is_receive) {
		races_heard(o->object, true);
	} else if (o->queues->bringing < bringing_before) {
		races_heard_all();
		peers_settle();
	}
}

/* The SRQ that a message to a target of XRC names is not known here. */
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

static void settle(uint32_t qpn, uint64_t wr_id, bool success, bool is_receive)
{
	uint32_t bringing;
	struct request *r = NULL;
	struct queues *q;
	struct object *o;
	struct list done;

	list_init(&done);
	lock_take(&objects_lock);
	o = *number_link(qpn);
	q = o ? is_receive ? receives_of(o) : o->queues : NULL;
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
	if (!success) /* its queue pair does nothing any more */
		peers_settle();
	lock_drop(&objects_lock);
	while (!list_empty(&done)) {
		r = container_of(list_pop(&done), struct request, link);
		asan_give(r);
		if (success)
			msan_brought(r);
		if (!pages_end(r) && success)
			buffers_end(r);
		free(r);
	}
}

/* A flush follows a failure, or is meant. */
static void note_failure(uint32_t qpn, enum ibv_wc_status status)
{
	const struct stack *here = stack_here();
	struct queues *q;

	if (status == IBV_WC_WR_FLUSH_ERR)
		return;
	lock_take(&objects_lock);
	q = queues_of_number(qpn);
	if (q && !q->failure) {
		q->failure = here;
		q->failed_status = status;
		q->failed_by = pthread_self();
		q->failed_poll = polls;
	}
	lock_drop(&objects_lock);
}

void check_moved(const struct ibv_qp *qp)
{
	struct object *o;

	peers_settle();
	if (check_is_paused())
		return;
	lock_take(&objects_lock);
	o = object_find(CHECK_QP, qp);
	if (o && o->queues)
		o->queues->failure = NULL;
	across_heard(); /* the peer's numbers have come by other means, which may have told more */
	lock_drop(&objects_lock);
}

/* What a program may read of a completion with an error: ibv_poll_cq(3). */
static void spoil(struct ibv_wc *wc)
{
	wc->opcode = (enum ibv_wc_opcode)UNDEFINED;
	wc->byte_len = wc->imm_data = wc->src_qp = wc->wc_flags = UNDEFINED;
	msan_spoil(&wc->opcode, sizeof(wc->opcode));
	msan_spoil(&wc->byte_len, sizeof(wc->byte_len));
	msan_spoil(&wc->imm_data, sizeof(wc->imm_data));
	msan_spoil(&wc->src_qp, sizeof(wc->src_qp));
	msan_spoil(&wc->wc_flags, sizeof(wc->wc_flags));
}

static void note_poll(const struct ibv_cq *cq)
{
	struct object *o;

	polls++;
	pages_tell();
	msan_tell();
	lock_take(&objects_lock);
	o = object_find(CHECK_CQ, cq);
	if (o && o->watch) {
		o->watch->polled = o->watch->polled_since_armed = true;
		o->watch->by = pthread_self();
	}
	lock_drop(&objects_lock);
}

static int check_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	int count = next.poll_cq(cq, entries, wc);

	msan_polled(wc, count);
	if (check_is_paused())
		return count;
	note_poll(cq);
	for (int i = 0; i < count; i++) {
		settle(wc[i].qp_num, wc[i].wr_id, wc[i].status == IBV_WC_SUCCESS, wc[i].opcode & IBV_WC_RECV);
		if (wc[i].status == IBV_WC_SUCCESS || !check_wants(CHECK_HABITS))
			continue;
		note_failure(wc[i].qp_num, wc[i].status);
		spoil(&wc[i]);
	}
	across_tell();
	return count;
}

void check_polled_none(const struct ibv_cq *cq)
{
	if (!check_is_paused())
		note_poll(cq);
}

void check_polled_one(const struct ibv_cq *cq, uint32_t qpn, uint64_t wr_id, enum ibv_wc_status status, bool is_receive)
{
	if (check_is_paused())
		return;
	note_poll(cq);
	settle(qpn, wr_id, status == IBV_WC_SUCCESS, is_receive);
	if (status != IBV_WC_SUCCESS && check_wants(CHECK_HABITS))
		note_failure(qpn, status);
	across_tell();
}

/* ---- events ---- */

static int check_req_notify_cq(struct ibv_cq *cq, int solicited)
{
	const struct stack *armed = check_is_paused() ? NULL : stack_near();
	struct object *o;

	if (!armed)
		return next.req_notify_cq(cq, solicited);
	lock_take(&objects_lock);
	o = object_find(CHECK_CQ, cq);
	if (o && o->watch) {
		o->watch->armed = true;
		o->watch->armed_at = armed;
		o->watch->by = pthread_self();
		o->watch->polled_since_armed = !o->watch->polled; /* what was never used has nothing in it */
	}
	lock_drop(&objects_lock);
	return next.req_notify_cq(cq, solicited);
}

/* ---- destruction ---- */

void check_destroys_qp(const struct ibv_qp *base)
{
	const struct qp *qp = (const struct qp *)base;
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "destroyed-outstanding",
		.remedy = "poll the completions first; or move the queue pair to ERR, and poll until all are flushed"};
	const struct stack *posted = NULL;
	uint32_t count = 0;
	struct object *o;

	if (check_is_paused() || !check_wants(CHECK_HABITS) || qp->state != IBV_QPS_RTS)
		return;
	lock_take(&objects_lock);
	o = find_queues(CHECK_QP, base);
	if (o)
		list_each_safe (l, &o->queues->sends) {
			const struct request *r = container_of(l, struct request, link);

			if (r->cq && !count++)
				posted = r->posted;
		}
	lock_drop(&objects_lock);
	if (!count)
		return;
	snprintf(f.text, sizeof(f.text),
		 "QP 0x%x is destroyed in RTS before the completion of %u send request%s was polled: "
		 "it is not known whether %s done",
		 base->qp_num, count, count > 1 ? "s" : "", count > 1 ? "they were" : "it was");
	f.at[0].title = "destroyed";
	f.at[0].stack = stack_here();
	f.at[1].title = "the first of them was posted";
	f.at[1].stack = posted;
	finding_report(&f);
}

/* Where a request was posted that uses the key; NULL: there is none. */
static const struct stack *requests_use(struct queues *q, uint32_t lkey, bool *is_send) REQUIRES(objects_lock)
{
	struct list *const both[] = {&q->sends, &q->receives};

	for (size_t i = 0; i < ARRAY_SIZE(both); i++)
		list_each_safe (l, both[i]) {
			const struct request *r = container_of(l, struct request, link);

			for (int n = 0; n < r->sges; n++)
				if (r->sge[n].lkey == lkey && (r->cq || !r->is_send)) {
					*is_send = r->is_send;
					return r->posted;
				}
		}
	return NULL;
}

/* A QP of it may still take a receive. */
static bool srq_is_in_use(const void *srq) REQUIRES(objects_lock)
{
	for (const struct object *o = objects_next(NULL); o; o = objects_next(o))
		if (o->kind == CHECK_QP && o->uses[3] == srq && ((const struct qp *)o->object)->state == IBV_QPS_RTS)
			return true;
	return false;
}

static bool is_in_use(const struct object *o) REQUIRES(objects_lock)
{
	if (!o->queues)
		return false;
	return o->kind == CHECK_SRQ ? srq_is_in_use(o->object) : ((const struct qp *)o->object)->state == IBV_QPS_RTS;
}

static void check_in_flight(const struct ibv_mr *mr, const char *done)
{
	struct finding f = {.class = CHECK_HABITS,
			    .name = "deregistered-in-flight",
			    .remedy = "poll the completions of all requests that use the region first",
			    .at = {{done, NULL}, {"posted", NULL}, {"registered", NULL}}};
	uint32_t lkey = mr->lkey;
	struct object *o;
	bool is_send = false;

	if (!check_wants(CHECK_HABITS))
		return;
	lock_take(&objects_lock);
	for (o = objects_next(NULL); o && !f.at[1].stack; o = objects_next(o))
		if (is_in_use(o))
			f.at[1].stack = requests_use(o->queues, lkey, &is_send);
	o = object_find(CHECK_MR, mr);
	f.at[2].stack = o ? o->made : NULL;
	lock_drop(&objects_lock);
	if (!f.at[1].stack)
		return;
	snprintf(f.text, sizeof(f.text), "a region is %s while a %s that uses it is outstanding", done,
		 is_send ? "send request" : "receive");
	f.at[0].stack = stack_here();
	finding_report(&f);
}

static void mr_ends(const struct ibv_mr *mr, const char *done)
{
	peers_settle();
	if (check_is_paused())
		return;
	pages_lift((uintptr_t)mr->addr, mr->length);
	buffers_mapped(mr);
	check_in_flight(mr, done);
}

void check_deregisters(const struct ibv_mr *mr)
{
	mr_ends(mr, "deregistered");
}

void check_reregisters(const struct ibv_mr *mr)
{
	mr_ends(mr, "re-registered");
}

void check_tells(void)
{
	peers_told();
}

void check_heard(void)
{
	peers_settle();
	lock_take(&objects_lock);
	races_heard_all();
	lock_drop(&objects_lock);
}

void check_registers(const void *memory, uint64_t length)
{
	pages_lift((uintptr_t)memory, length);
}

void check_operations(struct ibv_context_ops *ops)
{
	if (!hook_is_on(HOOK_CHECK) ||
	    !(check_wants(CHECK_HABITS) || check_wants(CHECK_BUFFERS) || check_wants(CHECK_RACES) || msan_is_there()))
		return;
	if (check_wants(CHECK_RACES))
		across_start();
	next = *ops;
	ops->post_send = check_post_send;
	ops->post_recv = check_post_recv;
	ops->post_srq_recv = check_post_srq_recv;
	ops->poll_cq = check_poll_cq;
	ops->req_notify_cq = check_req_notify_cq;
}
