/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/cm_events.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "cm/channel.h"
#include "rsocket/attend.h"
#include "rsocket/endpoint.h"
#include "rsocket/flow.h"
#include "rsocket/peers.h"
#include "rsocket/table.h"
#include "rsocket/timeout.h"
#include "rsocket/tuned.h"
#include "rsocket/waiter.h"
#include "verbs/qp.h"

static struct lock run_lock = LOCK_RANKED(SERVICE_RUN); /* held while an event is handled */
static _Thread_local bool is_running;			/* this thread has run_lock */

/* ---- events ---- */

void rsocket_failed(struct rsocket *rs, int error)
{
	if (!rs->falls_back || !rsocket_is_nonblocking(rs) || rsocket_state(rs) >= RS_CONNECTED) {
		stream_fail(rs, error);
		return;
	}
	/* not libc's connect(): liburoce-rsocket.so has one that calls this */
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

static int established(struct rsocket *rs, const struct rdma_cm_event *e) REQUIRES(rs->lock)
{
	if (rsocket_state(rs) == RS_CONNECTING) {
		int err = endpoint_take(rs, e->param.conn.private_data, e->param.conn.private_data_len);

		if (err)
			return err;
	}
	if (rsocket_state(rs) == RS_CONNECTING || rsocket_state(rs) == RS_ACCEPTING)
		rsocket_connected(rs);
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

static void disconnected(struct rsocket *rs) REQUIRES(rs->lock)
{
	stream_process(rs);		       /* data before the DREQ count */
	if (rsocket_state(rs) == RS_CONNECTED) /* without its last word a peer may have sent more than came */
		stream_fail(rs, rs->read_shut || rs->peer_shut ? 0 : ECONNRESET);
	rdma_disconnect(rs->id);
}

static void note_peer(struct rsocket *rs, enum rdma_cm_event_type event)
{
	const struct sockaddr *peer = (struct sockaddr *)&rs->peer;

	if (event == RDMA_CM_EVENT_ESTABLISHED) /* REJECTED may come of an ICMP error: cm/probe.h */
		peer_has_answered(peer);
	else if (event == RDMA_CM_EVENT_UNREACHABLE)
		peer_was_silent(peer);
}

static void handle(struct rsocket *rs, const struct rdma_cm_event *e) REQUIRES(rs->lock)
{
	int err = 0;

	if (rs->falls_back)
		note_peer(rs, e->event);
	if (rsocket_state(rs) == RS_PLAIN)
		return;
	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		err = rdma_resolve_route(rs->id, RESOLVE_MS) ? -errno : 0;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (rsocket_state(rs) != RS_RESOLVING)
			break;
		rsocket_set_state(rs, RS_CONNECTING);
		err = connect_now(rs);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		err = established(rs, e);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		disconnected(rs);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		rsocket_failed(rs, status_of(e));
		break;
	default:
		break;
	}
	if (err)
		rsocket_failed(rs, -err);
}

/* Once an accepted rsocket is connected, its listener has it; once it has failed, it is put. */
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

static struct rsocket *make_accepted(struct rsocket *listener)
{
	struct rsocket *rs = rsocket_make(-1, listener->domain, SOCK_STREAM, listener->destroy);

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

/* An rsocket for a REQ, with the reference that tell_listener() passes on. NULL: no memory. */
static struct rsocket *answer_request(struct rsocket *listener, const struct rdma_cm_event *e)
{
	struct rsocket *rs = make_accepted(listener);
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

/* ---- handling ---- */

static void run_request(struct rdma_cm_event *e)
{
	struct rsocket *listener = e->listen_id->context, *rs = NULL;
	struct rdma_cm_id *id = e->id;

	id->context = NULL;
	if (rsocket_try_ref(listener)) {
		rs = answer_request(listener, e);
		rsocket_put(listener);
	}
	if (!rs)
		rdma_reject(id, NULL, 0);
	else
		rsocket_ref(rs);
	rdma_ack_cm_event(e); /* before rdma_destroy_id(), which waits for it */
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
		rdma_ack_cm_event(e); /* another thread is in cm_events_forget(), which waits for this */
		return;
	}
	lock_take(&rs->lock);
	handle(rs, e);
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

void cm_events_run(void)
{
	struct rdma_event_channel *ch = attend_channel();

	if (!ch || !attend_has_event(ch))
		return;
	lock_take(&run_lock);
	is_running = true;
	while (attend_has_event(ch) && run_one(ch))
		;
	is_running = false;
	lock_drop(&run_lock);
}

/* With run_lock no event of the rsocket is being handled, and afterwards there are none. */
static void destroy_id(struct rsocket *rs) REQUIRES(run_lock)
{
	lock_assert_unshared(&rs->lock);
	if (rs->id->qp)
		destroy_qp_unsettled(rs->id->qp);
	rs->id->qp = NULL;
	rdma_destroy_id(rs->id);
	rs->id = NULL;
}

void cm_events_forget(struct rsocket *rs)
{
	lock_assert_unshared(&rs->lock);
	if (!rs->id)
		return;
	if (is_running) {
		lock_assert_held(&run_lock);
		destroy_id(rs);
		return;
	}
	lock_take(&run_lock);
	destroy_id(rs);
	lock_drop(&run_lock);
}

void cm_events_stop(void)
{
	lock_take(&run_lock);
	is_running = true;
	lock_hand_over(&run_lock); /* never dropped */
}

void cm_events_in_child(void)
{
	is_running = false;
}
