/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management of all rsockets: one event channel for all of them. A thread that waits for a connection
 * handles the channel's events itself. When none waits, a thread of ours does, so that connections are answered and
 * closed while the application computes. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cm/channel.h"
#include "check/scope.h"
#include "base/high_fd.h"
#include "base/fork.h"
#include "base/log.h"
#include "cm/id.h"
#include "loop/helper.h"
#include "progress/poll.h"
#include "rsocket/rsocket.h"
#include "verbs/context.h"

/* At the end of a process: how long nothing of what is on its way need arrive. Longer than the four timeouts of a queue
 * pair of rdma_cm (17: 537 ms) after which at the latest a lost packet is sent again. */
#define PART_TIME (2500 * MSEC)

/* Held while the channel is made, and while an event is handled: before rs->lock of any rsocket. */
static struct lock make_lock, run_lock;
static _Atomic(struct rdma_event_channel *) channel;
static pthread_t thread;
static int poke = -1;		      /* eventfd: wakes the thread to look at its lists */
static _Thread_local bool is_running; /* this thread has run_lock */

static struct lock list_lock; /* a leaf */
static struct list closing GUARDED_BY(list_lock) = {&closing,
						    &closing}; /* rsockets that the application has closed, and whose
								* last bytes are on their way; each has a reference */
static uint32_t closing_count GUARDED_BY(list_lock); /* of these, and of those that are being looked at just now */
/* when something that one of them had sent was last seen to have arrived */
static uint64_t closing_moved GUARDED_BY(list_lock);
static struct list keeping GUARDED_BY(list_lock) = {
	&keeping, &keeping}; /* that send something now and then; while in the table */

/* ---- events ---- */

static void over(struct rsocket *rs, int error) REQUIRES(rs->lock)
{
	/* relaxed: see stream.c waits() */
	bool waits = !atomic_load_explicit(&rs->nonblocking, memory_order_relaxed);

	if (!rs->falls_back || waits || rsocket_state(rs) >= RS_CONNECTED) {
		stream_fail(rs, error);
		return;
	}
	/* not the library's function: that may be one which comes back here */
	syscall(SYS_connect, rs->fd, &rs->peer,
		rs->domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	rsocket_set_state(rs, RS_PLAIN);
}

static int connect_now(struct rsocket *rs) REQUIRES(rs->lock)
{
	struct rdma_conn_param p = {.flow_control = 1, .retry_count = 7, .rnr_retry_count = 7};
	struct rs_connect offer;
	int err = endpoint_create(rs);

	if (err)
		return err;
	endpoint_offer(rs, &offer);
	p.private_data = &offer;
	p.private_data_len = sizeof(offer);
	return rdma_connect(rs->id, &p) ? -errno : 0;
}

static int service_established(struct rsocket *rs, const struct rdma_cm_event *e) REQUIRES(rs->lock)
{
	if (rsocket_state(rs) == RS_CONNECTING) {
		int err = endpoint_take(rs, e->param.conn.private_data, e->param.conn.private_data_len);

		if (err)
			return err;
	}
	if (rsocket_state(rs) == RS_CONNECTING || rsocket_state(rs) == RS_ACCEPTING)
		service_connected(rs);
	return 0;
}

static int status_of(const struct rdma_cm_event *e)
{
	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return e->status == -ETIMEDOUT ? ETIMEDOUT : ENETUNREACH;
	case RDMA_CM_EVENT_REJECTED:
		return ECONNREFUSED;
	case RDMA_CM_EVENT_UNREACHABLE:
		return ETIMEDOUT;
	default:
		return ECONNABORTED;
	}
}

static void service_disconnected(struct rsocket *rs) REQUIRES(rs->lock)
{
	stream_process(rs); /* what came before that counts */
	if (rsocket_state(rs) == RS_CONNECTED)
		stream_fail(rs, rs->write_shut || rs->peer_shut || stream_is_drained(rs) ? 0 : ECONNRESET);
	rdma_disconnect(rs->id);
}

static void note_peer(struct rsocket *rs, enum rdma_cm_event_type event)
{
	const struct sockaddr *peer = (struct sockaddr *)&rs->peer;

	if (event == RDMA_CM_EVENT_ESTABLISHED) /* not by a refusal, which may be what its kernel says of the port
						   (cm/probe.h) */
		peer_has_answered(peer);
	else if (event == RDMA_CM_EVENT_UNREACHABLE)
		peer_was_silent(peer);
}

static void service_handle(struct rsocket *rs, const struct rdma_cm_event *e) REQUIRES(rs->lock)
{
	int err = 0;

	if (rs->falls_back)
		note_peer(rs, e->event);
	if (rsocket_state(rs) == RS_PLAIN) /* what comes of the attempt is nobody's any more */
		return;
	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		err = rdma_resolve_route(rs->id, 2000) ? -errno : 0;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (rsocket_state(rs) != RS_RESOLVING)
			break;
		rsocket_set_state(rs, RS_CONNECTING);
		err = connect_now(rs);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		err = service_established(rs, e);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		service_disconnected(rs);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		over(rs, status_of(e));
		break;
	default:
		break;
	}
	if (err)
		over(rs, -err);
}

/* A connection is whole, or will never be: its listener learns of it. */
static void tell_listener(struct rsocket *rs) EXCLUDES(rs->lock)
{
	struct rsocket *listener = NULL;
	bool whole;

	lock_take(&rs->lock);
	if (rsocket_state(rs) >= RS_CONNECTED) {
		listener = rs->listener;
		rs->listener = NULL;
	}
	whole = rsocket_state(rs) == RS_CONNECTED;
	lock_drop(&rs->lock);
	if (!listener)
		return;
	lock_take(&listener->lock);
	if (whole && rsocket_state(listener) == RS_LISTENING) {
		list_append(&listener->accepted, &rs->queue);
		rs = NULL; /* the list has the reference */
	}
	lock_drop(&listener->lock);
	if (rs)
		rsocket_put(rs);
	rsocket_wake(listener);
	rsocket_put(listener);
}

/* ---- requests ---- */

static struct rsocket *service_inherit(struct rsocket *listener)
{
	struct rsocket *rs = rsocket_make(-1, listener->domain, SOCK_STREAM);

	if (!rs)
		return NULL;
	lock_take(&listener->lock);
	rs->sq_size = listener->sq_size;
	rs->rq_size = listener->rq_size;
	rs->inline_size = listener->inline_size;
	rs->iomap_size = listener->iomap_size;
	rs->tx_bytes = listener->tx_bytes;
	rs->rx_bytes = listener->rx_bytes;
	rs->nodelay = listener->nodelay;
	rs->keepalive = listener->keepalive;
	rs->keep_idle = listener->keep_idle;
	rs->reuse = listener->reuse;
	rs->lingers = listener->lingers;
	rs->linger_seconds = listener->linger_seconds;
	lock_drop(&listener->lock);
	return rs;
}

static int accept_now(struct rsocket *rs, const struct rdma_cm_event *e) REQUIRES(rs->lock)
{
	struct rdma_conn_param p = {.flow_control = 1, .rnr_retry_count = 7, .retry_count = 7};
	struct rs_connect offer;
	int err = endpoint_create(rs);

	if (!err)
		err = endpoint_take(rs, e->param.conn.private_data, e->param.conn.private_data_len);
	if (err)
		return err;
	endpoint_offer(rs, &offer);
	p.private_data = &offer;
	p.private_data_len = sizeof(offer);
	rsocket_set_state(rs, RS_ACCEPTING);
	return rdma_accept(rs->id, &p) ? -errno : 0;
}

/* Afterwards rs->listener keeps it: the reference that it was made with is the queue's to be. NULL: no memory. */
static struct rsocket *service_request(struct rsocket *listener, const struct rdma_cm_event *e)
{
	struct rsocket *rs = service_inherit(listener);
	int err;

	if (!rs)
		return NULL;
	lock_take(&rs->lock);
	e->id->context = rs;
	rs->id = e->id;
	rs->listener = listener;
	rsocket_ref(listener);
	err = accept_now(rs, e);
	if (err)
		rsocket_set_state(rs, RS_OVER);
	lock_drop(&rs->lock);
	if (err) {
		log_info("a connection could not be accepted: %s", strerror(-err));
		rdma_reject(e->id, NULL, 0);
	}
	return rs;
}

static bool looks_busy(struct rdma_event_channel *ch)
{
	bool busy;

	lock_take(&cm.lock);
	busy = !list_empty(&((struct event_channel *)ch)->events);
	lock_drop(&cm.lock);
	return busy;
}

static void run_request(struct rdma_cm_event *e)
{
	struct rsocket *listener = e->listen_id->context, *rs = NULL;
	struct rdma_cm_id *id = e->id;

	id->context = NULL;
	if (rsocket_try_ref(listener)) {
		rs = service_request(listener, e);
		rsocket_put(listener);
	}
	if (!rs)
		rdma_reject(id, NULL, 0);
	else
		rsocket_ref(rs);
	rdma_ack_cm_event(e); /* before the id may go */
	if (!rs) {
		rdma_destroy_id(id);
		return;
	}
	tell_listener(rs);
	rsocket_put(rs);
}

static void run_event(struct rdma_cm_event *e)
{
	struct rsocket *rs = e->id->context;

	if (!rs || !rsocket_try_ref(rs)) {
		rdma_ack_cm_event(e); /* it is being destroyed, and waits for us */
		return;
	}
	lock_take(&rs->lock);
	service_handle(rs, e);
	lock_drop(&rs->lock);
	rdma_ack_cm_event(e);
	rsocket_wake(rs);
	tell_listener(rs);
	rsocket_put(rs);
}

/* One event. False: there is none. */
static bool run_one(struct rdma_event_channel *ch) REQUIRES(run_lock)
{
	struct rdma_cm_event *e;

	if (cm_get_event(ch, &e))
		return false;
	if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		run_request(e);
	else
		run_event(e);
	return true;
}

static void run(struct rdma_event_channel *ch)
{
	lock_take(&run_lock);
	is_running = true;
	while (looks_busy(ch) && run_one(ch))
		;
	is_running = false;
	lock_drop(&run_lock);
}

void service_run(void)
{
	struct rdma_event_channel *ch =
		atomic_load_explicit(&channel, memory_order_acquire); /* pairs with service_make() */

	if (ch && looks_busy(ch))
		run(ch);
}

/* The last reference is gone. With the lock no event about it is being handled, and afterwards there are none. */
static void service_destroy_id(struct rsocket *rs) REQUIRES(run_lock)
{
	lock_assert_unshared(&rs->lock);
	if (rs->id->qp)
		destroy_qp_unsettled(rs->id->qp);
	rs->id->qp = NULL;
	rdma_destroy_id(rs->id);
	rs->id = NULL;
}

void service_forget(struct rsocket *rs)
{
	lock_assert_unshared(&rs->lock);
	lock_take(&list_lock);
	list_remove(&rs->keeping);
	lock_drop(&list_lock);
	if (!rs->id)
		return;
	if (is_running) {
		lock_assert_held(&run_lock);
		service_destroy_id(rs);
		return;
	}
	lock_take(&run_lock);
	service_destroy_id(rs);
	lock_drop(&run_lock);
}

/* ---- who sees to events ---- */

static struct lock attend_lock; /* a leaf */
static struct list attending GUARDED_BY(attend_lock) = {&attending, &attending};

/* An event has come. With cm.lock. */
static void service_notify(void)
{
	lock_take(&attend_lock);
	if (list_empty(&attending))
		eventfd_write(poke, 1);
	list_each (l, &attending) {
		struct attendant *a = container_of(l, struct attendant, link);

		if (a->sleeps)
			eventfd_write(a->fd, 1);
		a->sleeps = false;
	}
	lock_drop(&attend_lock);
}

static bool is_attended(void)
{
	bool is;

	lock_take(&attend_lock);
	is = !list_empty(&attending);
	lock_drop(&attend_lock);
	return is;
}

void service_attend(struct attendant *a, int fd)
{
	a->fd = fd;
	a->sleeps = false;
	lock_take(&attend_lock);
	list_append(&attending, &a->link);
	lock_drop(&attend_lock);
}

void service_attendant_sleeps(struct attendant *a)
{
	lock_take(&attend_lock);
	a->sleeps = true;
	lock_drop(&attend_lock);
}

void service_leave(struct attendant *a)
{
	struct rdma_event_channel *ch =
		atomic_load_explicit(&channel, memory_order_acquire); /* pairs with service_make() */

	lock_take(&attend_lock);
	list_remove(&a->link);
	lock_drop(&attend_lock);
	/* what came before that, nobody was told of */
	if (ch && looks_busy(ch) && !is_attended())
		eventfd_write(poke, 1);
}

/* ---- what was closed before all had arrived ---- */

static void poke_thread(struct waiter *w)
{
	eventfd_write(poke, 1);
}

void service_close(struct rsocket *rs)
{
	rs->closer.wake = poke_thread;
	rsocket_wait_add(rs, &rs->closer);
	lock_take(&list_lock);
	list_append(&closing, &rs->closing);
	closing_count++;
	lock_drop(&list_lock);
	rsocket_arm(rs);
	eventfd_write(poke, 1);
}

static bool is_done(struct rsocket *rs)
{
	bool drained;

	lock_take(&rs->lock);
	rsocket_arm(rs);
	stream_process(rs);
	drained = stream_is_drained(rs);
	lock_drop(&rs->lock);
	return drained;
}

/* Whether more of what it has sent has arrived than when this was last asked. */
static bool service_has_moved(struct rsocket *rs)
{
	uint32_t una = 0;
	struct qp *qp;
	bool moved;

	lock_take(&rs->lock);
	qp = rs->id ? (struct qp *)rs->id->qp : NULL;
	if (qp) {
		lock_take(&qp->lock);
		una = qp->req.una.v;
		lock_drop(&qp->lock);
	}
	moved = una != rs->una;
	rs->una = una;
	lock_drop(&rs->lock);
	return moved;
}

static void end_closed(void)
{
	struct list rest, *l;

	list_init(&rest);
	lock_take(&list_lock);
	while ((l = list_pop(&closing)))
		list_append(&rest, l);
	lock_drop(&list_lock);
	while ((l = list_pop(&rest))) {
		struct rsocket *rs = container_of(l, struct rsocket, closing);
		bool moved;

		if (is_done(rs)) {
			rsocket_wait_remove(rs, &rs->closer);
			rsocket_put(rs);
			lock_take(&list_lock);
			closing_count--;
			lock_drop(&list_lock);
			continue;
		}
		moved = service_has_moved(rs);
		lock_take(&list_lock);
		list_append(&closing, l);
		if (moved)
			closing_moved = clock_now();
		lock_drop(&list_lock);
	}
}

static bool has_closing(uint64_t *moved)
{
	bool has;

	lock_take(&list_lock);
	has = closing_count;
	*moved = closing_moved;
	lock_drop(&list_lock);
	return has;
}

/* ---- keeping alive ---- */

void service_keep_alive(struct rsocket *rs) REQUIRES(rs->lock)
{
	bool keeps = rs->keepalive;

	if (rsocket_state(rs) != RS_CONNECTED)
		return; /* until it is, the list may be in use for service_limit() */
	lock_take(&list_lock);
	list_remove(&rs->keeping);
	if (keeps) {
		rs->keep_every = (uint64_t)max_of(rs->keep_idle, 1) * SEC;
		rs->keep_at = clock_now() + (uint64_t)rs->keep_idle * SEC;
		list_append(&keeping, &rs->keeping);
	}
	lock_drop(&list_lock);
	if (keeps)
		eventfd_write(poke, 1);
}

void service_connected(struct rsocket *rs)
{
	rsocket_set_state(rs, RS_CONNECTED);
	if (rs->keepalive)
		service_keep_alive(rs);
}

void service_limit(struct rsocket *rs, uint64_t until) REQUIRES(rs->lock)
{
	lock_take(&list_lock);
	list_remove(&rs->keeping);
	rs->keep_at = until;
	rs->keep_every = 0;
	list_append(&keeping, &rs->keeping);
	lock_drop(&list_lock);
	eventfd_write(poke, 1);
}

/* A WRITE of nothing: the acknowledgement is all that matters. */
static void service_keep(struct rsocket *rs)
{
	lock_take(&rs->lock);
	stream_process(rs);
	if (rsocket_state(rs) == RS_CONNECTED && rs->stream.controls < RS_GRANTS) {
		stream_post_control(rs, NULL, 0, IBV_WR_RDMA_WRITE, 0, 0, 0, 0);
		rsocket_arm(rs);
	}
	if (rsocket_state(rs) < RS_CONNECTED) {
		peer_was_silent((struct sockaddr *)&rs->peer);
		over(rs, ETIMEDOUT);
	}
	lock_drop(&rs->lock);
	rsocket_wake(rs);
}

/* The one that is due, with a reference, or when the next will be. */
static struct rsocket *next_due(uint64_t now, uint64_t *next)
{
	struct rsocket *due = NULL;

	lock_take(&list_lock);
	*next = NEVER;
	list_each_safe (l, &keeping) {
		struct rsocket *rs = container_of(l, struct rsocket, keeping);

		if (rs->keep_at <= now && !due && rsocket_try_ref(rs)) {
			due = rs;
			rs->keep_at = now + rs->keep_every;
			if (!rs->keep_every) {
				list_remove(&rs->keeping);
				continue;
			}
		}
		*next = min_of(*next, rs->keep_at);
	}
	lock_drop(&list_lock);
	return due;
}

/* ms until it has to be called again; -1: not before something happens. */
static int keep_all(void)
{
	uint64_t now = clock_now(), next;
	struct rsocket *rs;

	while ((rs = next_due(now, &next))) {
		service_keep(rs);
		rsocket_put(rs);
	}
	return next == NEVER ? -1 : (int)min_of((next - now) / MSEC + 1, (uint64_t)INT_MAX);
}

/* ---- the thread ---- */

static void *service_main(void *arg)
{
	struct rdma_event_channel *ch = arg;
	struct pollfd p = {.fd = poke, .events = POLLIN};

	pthread_setname_np(pthread_self(), "uroce-rsocket");
	for (int ms = -1;; ms = keep_all()) {
		eventfd_t count;

		if (poll(&p, 1, ms) < 0)
			continue;
		if (p.revents)
			eventfd_read(poke, &count);
		if (!is_attended())
			run(ch);
		end_closed();
	}
	return NULL;
}

/* What a socket of the kernel's does for a process that ends: the peer gets all, and learns that this is the end. */
static void service_part(struct rsocket *rs)
{
	if (is_datagram(rs))
		return;
	lock_take(&rs->lock);
	if (rsocket_state(rs) == RS_CONNECTED && !rs->write_shut)
		stream_control(rs, stream_last_word(rs));
	lock_drop(&rs->lock);
	for (uint64_t moved = clock_now(); !is_done(rs) && clock_now() < moved + PART_TIME;) {
		loop_progress();
		if (service_has_moved(rs))
			moved = clock_now();
	}
}

static void part_all(void)
{
	uint64_t start, moved;

	if (!atomic_load_explicit(&channel, memory_order_relaxed))
		return; /* a child's */
	rsocket_each(service_part);
	start = clock_now();
	while (has_closing(&moved) && clock_now() < max_of(start, moved) + PART_TIME) {
		loop_progress();
		end_closed();
	}
	/* the thread does nothing more: what it would use is about to go */
	lock_take(&run_lock);
	is_running = true;
	lock_hand_over(&run_lock); /* to nobody: it is held until the process is gone */
}

static int service_start(struct rdma_event_channel *ch)
{
	static bool parts; /* a child has its parent's handler */
	sigset_t all, old;
	int error;

	/* signals are for the application's threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&thread, NULL, service_main, ch);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error) {
		loop_say_no_thread(error);
		return ENOMEM; /* EAGAIN of a socket means: try again */
	}
	pthread_detach(thread);
	if (!parts)
		parts = !atexit(part_all);
	return 0;
}

static void rsocket_service_forget(void)
{
	/* another thread of the parent may have held them */
	make_lock = run_lock = list_lock = attend_lock = (struct lock){0};
	lock_assert_unshared(&list_lock);
	list_init(&attending);
	list_init(&closing);
	list_init(&keeping);
	closing_count = 0;
	is_running = false;
	atomic_store_explicit(&channel, NULL, memory_order_relaxed);
}

static void service_watch_forks(void)
{
	static const struct fork_handlers handlers = {.in_child = rsocket_service_forget};

	fork_watch(FORK_RSOCKET_SERVICE, &handlers);
}

static struct rdma_event_channel *service_make(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct rdma_event_channel *ch;
	int error;

	check_pause();
	ch = rdma_create_event_channel();
	check_resume();
	pthread_once(&once, service_watch_forks);
	if (!ch)
		return NULL;
	poke = high_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	((struct event_channel *)ch)->notify = service_notify;
	error = poke < 0 || fcntl(ch->fd, F_SETFL, O_NONBLOCK) ? errno : service_start(ch);
	if (!error)
		return ch;
	if (poke >= 0)
		close(poke);
	rdma_destroy_event_channel(ch);
	errno = error;
	return NULL;
}

struct rdma_event_channel *service_channel(void)
{
	struct rdma_event_channel *ch;

	lock_take(&make_lock);
	ch = atomic_load_explicit(&channel, memory_order_relaxed);
	if (!ch) {
		ch = service_make();
		atomic_store_explicit(&channel, ch, memory_order_release); /* pairs with service_run() */
	}
	lock_drop(&make_lock);
	return ch;
}
