/* SPDX-License-Identifier: BSD-2-Clause */
/* Running QPs: sends what the engine makes while qp->lock is held, so that packets of one QP leave in order. */
#include "port/run.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hazard.h"
#include "base/hooks.h"
#include "base/timer.h"
#include "base/trace.h"
#include "engine/engine.h"
#include "host/steering.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "port/faults.h"
#include "port/local_link.h"
#include "port/nearby.h"
#include "port/transmit.h"
#include "port/tuned.h"

#define TICK_SHIFT 20 /* a tick is 2^20 ns */

/* The buffers with which a thread runs QPs; made at first use, freed when the thread ends. */
struct worker {
	struct tx_batch batch;
	bool cut; /* a payload could not be read: of the rest of the tx batch, only ACKs are sent */
	struct link_tx tx[BATCH_PACKETS];
};

static _Thread_local struct worker *own_worker;
static pthread_key_t worker_key;

static void make_key(void)
{
	pthread_key_create(&worker_key, free);
}

static struct worker *make_worker(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_key);
	own_worker = calloc(1, sizeof(*own_worker));
	if (own_worker)
		pthread_setspecific(worker_key, own_worker); /* frees it when the thread ends */
	return own_worker;
}

int run_prepare(void)
{
	return (own_worker || make_worker()) && (hazards_own || hazards_begin()) ? 0 : -ENOMEM;
}

static struct link_tx link_tx_of(const struct tx_batch *batch, const struct tx *tx)
{
	const struct path *path = tx->path;

	return (struct link_tx){
		.packet = &tx->packet,
		.iov = batch->iov + tx->iov,
		.iovs = tx->iovs,
		.dgid = &path->dgid,
		.sgid = &path->sgid,
		.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit,
		.flow_label = path->flow_label,
		.foreign = batch->regions,
	};
}

/* True if a packet of the tx batch must not be sent, because an earlier one could not be. */
static bool is_cut(const struct worker *w, const struct packet *p)
{
	return unlikely(w->cut) && OPERATION(p->opcode) != OP_ACKNOWLEDGE;
}

/* Cuts the tx batch: the application has unmapped the payload's memory. */
static void cut(struct worker *w, struct qp *qp, const struct tx *tx) REQUIRES(qp->lock)
{
	w->cut = true;
	engine_unreadable(qp, tx);
}

/* Sends the `count` packets collected in w->tx. */
static void send_collected(struct worker *w, struct qp *qp, struct link *link, uint32_t count) REQUIRES(qp->lock)
{
	uint32_t done = transmit(link, w->tx, count);

	if (likely(done <= count))
		return;
	for (uint32_t i = done - LINK_UNREADABLE; i < count; i++)
		if (!is_cut(w, w->tx[i].packet) && transmit(link, &w->tx[i], 1) > 1)
			cut(w, qp, container_of(w->tx[i].packet, struct tx, packet));
}

/* True if a packet goes into its local peer's ring. Requests do once all packets sent by udp have arrived; responses
 * always, as an overtaken one says nothing new. */
static bool goes_near(const struct qp *qp, const struct tx *tx) REQUIRES(qp->lock)
{
	return qp->req.lossless || !(opcode_info[tx->packet.opcode].flags & IS_REQUEST);
}

static void send_near(struct worker *w, struct qp *qp, struct local_peer *peer, const struct tx *tx)
	REQUIRES(qp->lock, peer->lock)
{
	const struct link_tx out = link_tx_of(&w->batch, tx);

	if (unlikely(transmit(&peer->link, &out, 1) > 1))
		cut(w, qp, tx);
	qp->loop.sent_to = peer->tx_ring.at;
}

static void send_datagram(struct worker *w, struct qp *qp, const struct tx *tx) REQUIRES(qp->lock)
{
	const struct link_tx out = link_tx_of(&w->batch, tx);

	if (unlikely(!nearby_send(tx->near, &out)))
		cut(w, qp, tx);
}

/* True for a packet that was made for a ring and cannot go by the network, as the local peer is gone now. */
static bool is_too_large(const struct qp *qp, const struct tx *tx) REQUIRES(qp->lock)
{
	return tx->packet.length > qp->mtu || tx->packet.pieces;
}

/* Changes packets before they leave, for migration and faults. */
NO_LOCK_ANALYSIS static __attribute__((cold, noinline)) void change_batch(struct qp *qp, struct tx_batch *batch,
									  struct local_peer *near)
{
	engine_mark(qp, batch);
	if (hook_is_on(HOOK_FAULT))
		faults_send(loop_of(qp), qp, batch, near);
}

/* Sends a tx batch. Called with qp->lock held, and the local peer's lock if there is one. */
NO_LOCK_ANALYSIS static void send_batch(struct worker *w, struct qp *qp, struct local_peer *near)
{
	struct tx_batch *batch = &w->batch;
	struct port *port = NULL;
	uint32_t n = 0;

	w->cut = false;
	if (unlikely(hook_is_on(HOOK_FAULT | HOOK_MIGRATION)))
		change_batch(qp, batch, near);
	for (uint32_t i = 0; i < batch->packets; i++) {
		const struct tx *tx = &batch->tx[i];

		if (is_cut(w, &tx->packet)) {
			if (tx->near)
				nearby_ops.release(tx->near, tx->packet.length);
		} else if (tx->near) {
			send_datagram(w, qp, tx);
		} else if (near && goes_near(qp, tx)) {
			send_near(w, qp, near, tx);
		} else if (likely(tx->path->port && !is_too_large(qp, tx))) { /* no port: the QP is moving to RESET */
			if (tx->path->port != port && n)
				send_collected(w, qp, port->link, n);
			n = tx->path->port != port ? 0 : n;
			port = tx->path->port;
			w->tx[n++] = link_tx_of(batch, tx);
		}
	}
	if (n)
		send_collected(w, qp, port->link, n);
}

/* Shares the buffers between this process and its peers among the QPs that send, which it counts by ticks. */
uint32_t qp_budget(struct loop *l, struct qp *qp, uint64_t now)
{
	uint32_t tick = now >> TICK_SHIFT, n;

	if (atomic_load_explicit(&l->tick, memory_order_relaxed) != tick) {
		atomic_store_explicit(&l->active_before, atomic_exchange_explicit(&l->active, 0, memory_order_relaxed),
				      memory_order_relaxed);
		atomic_store_explicit(&l->tick, tick, memory_order_relaxed);
	}
	if (qp->loop.tick != tick) {
		qp->loop.tick = tick;
		atomic_fetch_add_explicit(&l->active, 1, memory_order_relaxed);
	}
	n = max_of(atomic_load_explicit(&l->active, memory_order_relaxed),
		   atomic_load_explicit(&l->active_before, memory_order_relaxed));
	return max_of(atomic_load_explicit(&l->budget, memory_order_relaxed) / max_of(n, 1u), QP_BUDGET);
}

/* The port by which the next packet leaves; NULL: the QP is moving to RESET. */
static struct port *port_of_next(struct qp *qp) REQUIRES(qp->lock)
{
	bool datagram = qp->transport == TRANSPORT_UD && qp->req.wqe != qp->sq.tail;

	return datagram ? wqe_path(&qp->sq, sq_at(&qp->sq, qp->req.wqe))->port : qp->path.port;
}

/* Bytes that may be sent now: the room of the ring or the socket. */
static uint32_t room_of(struct qp *qp, struct local_peer *near) REQUIRES(qp->lock)
{
	struct port *port = near ? NULL : port_of_next(qp);

	if (near)
		return local_room(near);
	return port && port->link->ops->capacity ? port->link->ops->capacity(port->link) : UINT32_MAX;
}

/* Sets the timer. A timer that is set to an earlier time is kept, and set again when it fires. */
void run_at(struct loop *l, struct qp *qp, uint64_t deadline)
{
	if (deadline == NEVER || (qp->loop.timer_at && qp->loop.timer_at <= deadline))
		return;
	qp->loop.timer_at = deadline;
	if (timer_set(&l->hca.timers, &qp->timer, deadline))
		helper_deadline(l, deadline);
}

void set_deadline(struct loop *l, struct qp *qp) REQUIRES(qp->lock)
{
	run_at(l, qp, engine_deadline(qp));
}

/* Sends until nothing is left. False: the ring or the socket is full. */
static bool send_all(struct loop *l, struct qp *qp, uint64_t now, bool delay_ack) REQUIRES(qp->lock)
{
	struct worker *w = own_worker ?: make_worker();
	struct local_peer *near;
	bool more;

	if (unlikely(!w)) {
		run_at(l, qp, now + FULL_WAIT);
		return true;
	}
	near = local_enter(qp);
	w->batch.now = now;
	w->batch.delay_ack = delay_ack;
	w->batch.near = &nearby_ops;
	w->batch.budget = near && qp->req.lossless ? UINT32_MAX : qp_budget(l, qp, now);
	do {
		w->batch.room = faults_room(qp, room_of(qp, near), now);
		more = engine_run(qp, &w->batch);
		send_batch(w, qp, near);
		more |= w->cut ||
			(w->batch.full && !near && w->batch.packets); /* a socket may have emptied meanwhile */
		if (unlikely(!is_reliable(qp)) && w->batch.packets && !w->batch.tx[0].near)
			qp->loop.sent_at = now;
		batch_done(&w->batch);
	} while (more);
	if (unlikely(hook_is_on(HOOK_FAULT)))
		faults_sent(l, qp, near, now);
	if (near)
		local_leave(qp, near, w->batch.full);
	else if (unlikely(w->batch.full))
		run_at(l, qp, now + FULL_WAIT);
	return !w->batch.full;
}

void run_qp(struct loop *l, struct qp *qp, uint64_t now, bool may_delay_ack)
{
	bool delay_ack = may_delay_ack && !qp->req.lossless, all = true;

	if (engine_has_work(qp, delay_ack) || unlikely(qp->req.changing))
		all = send_all(l, qp, now, delay_ack);
	set_deadline(l, qp);
	if (delay_ack && all && engine_has_work(qp, false))
		make_ready(l, qp);
}

void make_ready(struct loop *l, struct qp *qp)
{
	struct hca *hca = &l->hca;

	if (qp->loop.is_ready)
		return;
	qp->loop.is_ready = true;
	lock_take(&hca->ready_lock);
	if (list_empty(&qp->ready)) /* linked already if run_ready() took a new QP for an old one */
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

/* Settles QPs (settle.h). If another thread receives, it may not look here again: the helper does, before it sleeps. */
static void run_settling(struct loop *l)
{
	bool mine;

	/* relaxed: a hint, set by this thread or one that looks here again */
	if (likely(!atomic_load_explicit(&l->hca.has_settling, memory_order_relaxed)))
		return;
	mine = lock_try(&l->receive);
	atomic_store_explicit(&l->settle_missed, !mine, memory_order_relaxed);
	if (!mine)
		return;
	l->local.settle(l);
	lock_drop(&l->receive);
}

bool run_ready(struct loop *l, uint64_t now)
{
	struct qp *qp;
	uint32_t n = 0;

	for (; n < READY_BATCH && has_ready(l) && (qp = pop_ready(&l->hca)); n++) {
		/* the QP may have been destroyed since, and the memory be another QP's: running that does no harm */
		lock_take(&qp->lock);
		qp->loop.is_ready = false; /* from here on, a thread with something to send adds it again */
		if (qp->alive)
			run_qp(l, qp, now, false);
		lock_drop(&qp->lock);
	}
	run_settling(l);
	return n > 0;
}

/* Tells the steering that a request got no answer. `port` is only compared: it may have been closed. */
static void heed_silence(struct loop *l, const struct port *port, uint64_t now)
{
	if (!lock_try(&l->receive))
		return; /* the next time-out tries again */
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
		qp->loop.timer_at = 0;
		if (qp->alive) {
			uint8_t retries = qp->req.retries;

			if (unlikely(local_is_unseen(qp)))
				engine_postpone(qp, now);
			if (unlikely(hook_is_on(HOOK_FAULT)))
				faults_expire(l, qp, now);
			engine_expire(qp, now); /* other deadlines may be due */
			if (unlikely(qp->req.retries < retries))
				silent = qp->path.port;
			run_qp(l, qp, now, false);
		}
		lock_drop(&qp->lock);
		if (unlikely(silent))
			heed_silence(l, silent, now);
	}
	run_settling(l);
	return any;
}
