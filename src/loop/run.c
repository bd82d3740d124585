/* SPDX-License-Identifier: BSD-2-Clause */
/* Running QPs: what the engine makes is sent while qp->lock is held, so packets of one QP leave in order. */
#include <poll.h>
#include <stdlib.h>

#include "base/trace.h"
#include "link/record.h"
#include "loop/nearby.h"
#include "loop/internal.h"
#include "loop/local_peer.h"

#define READY_BATCH 64u	   /* QPs that one call runs */
#define FULL_WAIT   1	   /* ms that a full send buffer gets to empty ... */
#define FULL_TRIES  20	   /* ... so often, before packets are dropped */
#define QP_BUDGET   16384u /* no QP's window is limited to less */
#define TICK_SHIFT  20	   /* a tick is 2^20 ns */
/* Charge that is worth a train of its own: see loop_posted(). */
#define TRAIN_CHARGE 16384u
#define SOON	     4096u	 /* charge that takes no time to speak of */
#define SENT_LATELY  (20 * USEC) /* UC, UD: then more is to come */

/* What a thread needs to run QPs; made when it first does. */
struct worker {
	struct tx_batch batch;
	bool cut; /* a payload of the tx batch could not be read, so that no more of it is sent but ACKs */
	struct link_tx tx[BATCH_PACKETS];
};

static _Thread_local struct worker *own_worker;
static pthread_key_t worker_key;

static void run_make_key(void)
{
	pthread_key_create(&worker_key, free);
}

static struct worker *make_worker(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, run_make_key);
	own_worker = calloc(1, sizeof(*own_worker));
	if (own_worker)
		pthread_setspecific(worker_key, own_worker); /* frees it when the thread ends */
	return own_worker;
}

/* The socket's buffer is full: the network is slower than we are. Waiting a little loses nothing, as nothing else can
 * be sent there either; dropping would make us send it all again. */
static bool wait_for_room(struct link *link)
{
	struct pollfd p = {.fd = atomic_load_explicit(&link->full, memory_order_relaxed), .events = POLLOUT};

	return poll(&p, 1, FULL_WAIT) >= 0;
}

uint32_t send_packets(struct link *link, const struct link_tx *tx, uint32_t count)
{
	uint32_t sent = link->ops->send(link, tx, count);

	for (int i = 0; unlikely(sent < count) && i < FULL_TRIES && wait_for_room(link); i++)
		sent += link->ops->send(link, tx + sent, count - sent);
	return sent;
}

static void trace_send(const struct packet *p)
{
	trace(send, p->dest_qpn, p->psn.v, p->opcode, p->length, packet_bytes(p), 0);
}

static struct link_tx link_tx_of(const struct tx_batch *batch, const struct tx *tx)
{
	const struct path *path = tx->path;

	return (struct link_tx){
		.packet = &tx->packet,
		.iov = batch->iov + tx->iov,
		.iovs = tx->iovs,
		.dgid = &path->dgid,
		.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit,
		.flow_label = path->flow_label,
		.foreign = batch->regions,
	};
}

/* Whether a packet of the tx batch is not to be sent, as one before it could not be. */
static bool is_cut(const struct worker *w, const struct packet *p)
{
	return unlikely(w->cut) && OPERATION(p->opcode) != OP_ACKNOWLEDGE;
}

/* The application has unmapped the memory. */
static void cut(struct worker *w, struct qp *qp, const struct tx *tx) REQUIRES(qp->lock)
{
	w->cut = true;
	engine_unreadable(qp, tx);
}

/* Those that are collected, and stay with their tx batch. */
static void send_collected(struct worker *w, struct qp *qp, struct link *link, uint32_t count) REQUIRES(qp->lock)
{
	uint32_t done = send_packets(link, w->tx, count);

	if (likely(done <= count))
		return;
	for (uint32_t i = done - LINK_UNREADABLE; i < count; i++)
		if (!is_cut(w, w->tx[i].packet) && send_packets(link, &w->tx[i], 1) > 1)
			cut(w, qp, container_of(w->tx[i].packet, struct tx, packet));
}

/* Into its local peer's ring. Requests go there when all that went by udp has arrived; answers at any time: those that
 * are late tell nothing new. */
static bool send_near(struct worker *w, struct qp *qp, struct local_peer *n, const struct tx *tx)
	REQUIRES(qp->lock, n->lock)
{
	uint32_t bytes = record_bytes(&tx->packet);
	struct link_tx out;

	if (!qp->req.lossless && opcode_info[tx->packet.opcode].flags & IS_REQUEST)
		return false;
	if (unlikely(ring_room(&n->tx_ring, bytes) < bytes))
		return true; /* no engine makes it: it knew the room */
	out = link_tx_of(&w->batch, tx);
	trace_send(&tx->packet);
	if (unlikely(!record_put(ring_next(&n->tx_ring), &out, &tx->path->sgid))) {
		cut(w, qp, tx);
		return true;
	}
	ring_publish(&n->tx_ring, bytes);
	qp->sent_to = n->tx_ring.at;
	return true;
}

/* What was made for a ring is too large for the network, or means nothing there: it was for a local peer that is gone.
 */
static bool is_too_large(const struct qp *qp, const struct tx *tx) REQUIRES(qp->lock)
{
	return tx->packet.length > qp->mtu || tx->packet.pieces;
}

/* With qp->lock, and that of the local peer if there is one. */
static void send_batch(struct worker *w, struct qp *qp, struct local_peer *near) NO_LOCK_ANALYSIS
{
	struct tx_batch *batch = &w->batch;
	struct port *port = NULL;
	uint32_t n = 0;

	w->cut = false;
	for (uint32_t i = 0; i < batch->packets; i++) {
		const struct tx *tx = &batch->tx[i];
		const struct path *path = tx->path;

		if (is_cut(w, &tx->packet)) {
			if (tx->near)
				nearby_ops.release(tx->near, tx->packet.length);
			continue;
		}
		if (tx->near) {
			const struct link_tx out = link_tx_of(batch, tx);

			trace_send(&tx->packet);
			if (unlikely(!nearby_send(tx, &out)))
				cut(w, qp, tx);
			continue;
		}
		if (near && send_near(w, qp, near, tx))
			continue;
		if (unlikely(is_too_large(qp, tx)))
			continue;
		if (path->link != port) {
			if (n)
				send_collected(w, qp, port->link, n);
			port = path->link;
			n = 0;
		}
		if (unlikely(!port))
			continue; /* the QP has lost its path: on its way to RESET */
		trace_send(&tx->packet);
		w->tx[n++] = link_tx_of(batch, tx);
	}
	if (n)
		send_collected(w, qp, port->link, n);
}

/* Counts the QPs that send; each gets its share of the buffers between us and our peers. */
static uint32_t run_share(struct loop *l, struct qp *qp, uint64_t now)
{
	uint32_t tick = now >> TICK_SHIFT, n;

	if (atomic_load_explicit(&l->tick, memory_order_relaxed) != tick) {
		atomic_store_explicit(&l->active_before, atomic_exchange_explicit(&l->active, 0, memory_order_relaxed),
				      memory_order_relaxed);
		atomic_store_explicit(&l->tick, tick, memory_order_relaxed);
	}
	if (qp->tick != tick) {
		qp->tick = tick;
		atomic_fetch_add_explicit(&l->active, 1, memory_order_relaxed);
	}
	n = max_of(atomic_load_explicit(&l->active, memory_order_relaxed),
		   atomic_load_explicit(&l->active_before, memory_order_relaxed));
	return max_of(atomic_load_explicit(&l->budget, memory_order_relaxed) / max_of(n, 1u), QP_BUDGET);
}

/* A timer that fires earlier will do: it is set again then. */
void set_deadline(struct loop *l, struct qp *qp) REQUIRES(qp->lock)
{
	uint64_t deadline = engine_deadline(qp);

	if (deadline == NEVER || (qp->timer_at && qp->timer_at <= deadline))
		return;
	qp->timer_at = deadline;
	if (timer_set(&l->hca.timers, &qp->timer, deadline))
		helper_deadline(l, deadline);
}

/* True: the QP has no more to send than there is room for. */
static bool run_send_all(struct loop *l, struct qp *qp, uint64_t now, bool delay_ack) REQUIRES(qp->lock)
{
	struct worker *w = own_worker ?: make_worker();
	struct local_peer *near;
	bool more;

	if (unlikely(!w))
		return true; /* the timer comes back to it */
	near = local_enter(qp);
	w->batch.now = now;
	w->batch.delay_ack = delay_ack;
	w->batch.near = &nearby_ops;
	w->batch.budget = near && qp->req.lossless ? UINT32_MAX : run_share(l, qp, now);
	do {
		w->batch.room = near ? local_room(near) : UINT32_MAX;
		more = engine_run(qp, &w->batch);
		send_batch(w, qp, near);
		more |= w->cut;
		if (unlikely(!is_reliable(qp)) && w->batch.packets && !w->batch.tx[0].near)
			qp->sent_at = now;
		batch_done(&w->batch);
	} while (more);
	if (near)
		local_leave(qp, near, w->batch.full);
	return !w->batch.full;
}

void run_qp(struct loop *l, struct qp *qp, uint64_t now, bool delay_ack)
{
	bool all = true;

	if (engine_has_work(qp, delay_ack) || unlikely(qp->req.changing))
		all = run_send_all(l, qp, now, delay_ack);
	set_deadline(l, qp);
	if (!delay_ack || !all || !engine_has_work(qp, false))
		delayed_ack_clear(qp);
	else if (!delayed_ack_set(l, qp))
		make_ready(l, qp);
}

void make_ready(struct loop *l, struct qp *qp)
{
	struct hca *hca = &l->hca;

	if (qp->is_ready)
		return;
	qp->is_ready = true;
	lock_take(&hca->ready_lock);
	if (list_empty(&qp->ready)) /* run_ready() may have mistaken a new QP for the one that was here before */
		list_append(&hca->ready, &qp->ready);
	atomic_store_explicit(&hca->has_ready, true, memory_order_relaxed);
	lock_drop(&hca->ready_lock);
	helper_ready(l);
}

static struct qp *pop_ready(struct hca *hca)
{
	struct list *link;

	lock_take(&hca->ready_lock);
	link = list_pop(&hca->ready);
	atomic_store_explicit(&hca->has_ready, !list_empty(&hca->ready), memory_order_relaxed);
	lock_drop(&hca->ready_lock);
	return link ? container_of(link, struct qp, ready) : NULL;
}

bool delayed_ack_run(struct loop *l, uint64_t now)
{
	struct qp *qp = atomic_exchange_explicit(&l->delayed_ack, NULL, memory_order_relaxed);

	if (!qp)
		return false;
	/* as in run_ready() */
	lock_take(&qp->lock);
	if (qp->alive)
		run_qp(l, qp, now, false);
	lock_drop(&qp->lock);
	return true;
}

bool run_ready(struct loop *l, uint64_t now)
{
	struct qp *qp;
	uint32_t n = has_delayed_ack(l) && delayed_ack_run(l, now);

	for (; n < READY_BATCH && has_ready(l) && (qp = pop_ready(&l->hca)); n++) {
		/* it may have been destroyed meanwhile, and even be another one by now: that does no harm */
		lock_take(&qp->lock);
		qp->is_ready = false; /* from here on, who has something to send puts it back */
		if (qp->alive)
			run_qp(l, qp, now, false);
		lock_drop(&qp->lock);
	}
	return n > 0;
}

/* The port may have been closed since: then it is not among the loop's any more. */
static void heed_silence(struct loop *l, const struct port *port, uint64_t now)
{
	if (!lock_try(&l->receive))
		return; /* the next time-out will do */
	for (uint32_t i = 0; i < l->ports; i++)
		if (l->port[i] == port)
			steering_silence(&l->port[i]->steered, now);
	lock_drop(&l->receive);
}

bool run_timers(struct loop *l, uint64_t now)
{
	struct timer *timer;
	bool any = false;

	for (; (timer = timers_pop(&l->hca.timers, now)); any = true) {
		struct qp *qp = container_of(timer, struct qp, timer);
		const struct port *silent = NULL;

		lock_take(&qp->lock);
		qp->timer_at = 0;
		if (qp->alive) {
			uint8_t retries = qp->req.retries;

			if (unlikely(local_is_unseen(qp)))
				engine_postpone(qp, now);
			engine_expire(qp, now); /* of what else is due */
			if (unlikely(qp->req.retries < retries))
				silent = qp->path.link;
			run_qp(l, qp, now, false);
		}
		lock_drop(&qp->lock);
		if (unlikely(silent))
			heed_silence(l, silent, now);
	}
	return any;
}

/* Whether it may wait for somebody who is bound to run the QP soon. What is posted to UC or UD is not
 * answered, so there is no acknowledgement to wait for; but who posts one after the other looks for
 * completions in between. */
static bool run_may_wait(struct qp *qp) REQUIRES(qp->lock)
{
	return likely(is_reliable(qp)) ? engine_awaits_answer(qp) : clock_now() < qp->sent_at + SENT_LATELY;
}

void loop_posting(struct qp *qp)
{
	if (unlikely(qp->path.local_peer && !qp->req.lossless && !loop_is_inert(loop_of(qp))))
		local_meet(qp);
}

void loop_run(struct qp *qp)
{
	struct loop *l = loop_of(qp);

	if (unlikely(loop_is_inert(l)))
		return;
	loop_posting(qp); /* so the first one that is posted goes the shortest way already */
	run_qp(l, qp, clock_now(), false);
}

/* What goes to a local peer goes fast: the helper need not be told of each. */
static bool is_noted(void)
{
	static _Thread_local uint32_t posts;

	return posts++ % NOTED == 0;
}

void note_post(struct loop *l)
{
	atomic_store_explicit(&l->last_post, clock_now(), memory_order_relaxed); /* a hint for the helper */
}

/* An idle connection sends at once. With packets on the way, an acknowledgement is bound to come (or the timer), which
 * runs the QP; so small requests may wait for it, or for the next poll, to become a train together. */
void loop_posted(struct qp *qp)
{
	struct loop *l = loop_of(qp);
	uint32_t backlog;
	uint64_t now;

	/* done when it was posted, in a local peer's memory */
	if (unlikely(loop_is_inert(l)) || (qp->reach && qp->sq.head == qp->sq.tail && !engine_has_work(qp, false)))
		return;
	backlog = engine_backlog(qp, TRAIN_CHARGE);
	if (backlog < TRAIN_CHARGE && !qp->req.lossless && run_may_wait(qp)) {
		make_ready(l, qp);
		return;
	}
	if (qp->req.lossless && !is_noted()) {
		run_qp(l, qp, clock_about(), false);
		return;
	}
	now = clock_now();
	atomic_store_explicit(&l->last_post, AT_WORK, memory_order_relaxed); /* hints for the helper */
	run_qp(l, qp, now, qp->answers_first && !qp->req.lossless);
	atomic_store_explicit(&l->last_post, backlog < SOON ? now : clock_now(), memory_order_relaxed);
}

/* loop_posted() of a post for which nothing waits. */
bool loop_post_short(struct qp *qp, struct ibv_send_wr *wr)
{
	struct loop *l = loop_of(qp);
	struct port *port = qp->path.link;
	struct link_tx tx[2];
	struct packet packet[2];
	uint32_t count;
	uint64_t now;
	char *room;

	if (qp->path.local_peer || wr->next || unlikely(!port || loop_is_inert(l)) || !engine_post_is_short(qp, wr) ||
	    !port->link->ops->room)
		return false;
	room = port->link->ops->room(port->link);
	if (unlikely(!room))
		return false;
	now = clock_now();
	count = engine_post_short(qp, wr, now, run_share(l, qp, now), room + opcode_info[OP_SEND_ONLY].header_bytes,
				  packet);
	if (unlikely(!count))
		return false;
	atomic_store_explicit(&l->last_post, AT_WORK, memory_order_relaxed); /* hints for the helper */
	for (uint32_t i = 0; i < count; i++)
		tx[i] = (struct link_tx){
			.packet = &packet[i],
			.dgid = &qp->path.dgid,
			.traffic_class = qp->path.traffic_class,
			.hop_limit = qp->path.hop_limit,
			.flow_label = qp->path.flow_label,
			.placed = i == 0,
		};
	send_packets(port->link, tx, count);
	delayed_ack_clear(qp);
	set_deadline(l, qp);
	atomic_store_explicit(&l->last_post, now, memory_order_relaxed);
	return true;
}
