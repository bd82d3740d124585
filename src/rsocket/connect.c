/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/connect.h"

#include "check/scope.h"
#include "rsocket/attend.h"
#include "rsocket/await.h"
#include "rsocket/closing.h"
#include "rsocket/cm_events.h"
#include "rsocket/datagram.h"
#include "rsocket/epoll.h"
#include "rsocket/flow.h"
#include "rsocket/service.h"
#include "rsocket/table.h"
#include "rsocket/timeout.h"
#include "rsocket/tuned.h"
#include "rsocket/waiter.h"

static int connect_set_options(struct rsocket *rs) REQUIRES(rs->lock)
{
	int on = 1;
	uint8_t tos = (uint8_t)rs->tos;

	if (rs->reuse)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
	if (rs->v6_only)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on));
	if (rs->tos)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos));
	return 0;
}

static int need_id(struct rsocket *rs) REQUIRES(rs->lock)
{
	struct rdma_event_channel *ch;
	int failed;

	if (rs->id)
		return 0;
	ch = service_channel();
	if (!ch)
		return -errno;
	check_pause();
	failed = rdma_create_id(ch, &rs->id, rs, RDMA_PS_TCP);
	check_resume();
	if (failed)
		return -errno;
	return connect_set_options(rs);
}

/* 0 or -errno. */
static int connect_check_address(const struct rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	if (!address || length < sizeof(address->sa_family))
		return -EINVAL;
	if (address->sa_family != rs->domain)
		return -EAFNOSUPPORT;
	return length < (rs->domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) ? -EINVAL
													   : 0;
}

int rsocket_bind(struct rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	int err = connect_check_address(rs, address, length);

	if (!err && rsocket_state(rs) != RS_NEW)
		err = -EINVAL;
	if (!err)
		err = need_id(rs);
	if (!err && rdma_bind_addr(rs->id, (struct sockaddr *)address))
		err = -errno;
	if (!err)
		rsocket_set_state(rs, RS_BOUND);
	return err;
}

int rsocket_listen(struct rsocket *rs, int backlog)
{
	struct sockaddr_storage any = {.ss_family = (sa_family_t)rs->domain};
	int err = 0;

	if (rsocket_state(rs) == RS_LISTENING)
		return 0;
	if (rsocket_state(rs) == RS_NEW)
		err = rsocket_bind(rs, (struct sockaddr *)&any, sizeof(any));
	if (!err && rsocket_state(rs) != RS_BOUND)
		err = -EINVAL;
	if (err)
		return err;
	rsocket_set_state(rs, RS_LISTENING);
	if (!rdma_listen(rs->id, backlog))
		return 0;
	err = -errno;
	rsocket_set_state(rs, RS_BOUND);
	return err;
}

static bool connect_is_settled(struct rsocket *rs)
{
	return rsocket_state(rs) >= RS_CONNECTED;
}

static int outcome(struct rsocket *rs) REQUIRES(rs->lock)
{
	int error = rs->error;

	if (rsocket_state(rs) == RS_CONNECTED)
		return 0;
	rs->error = 0;
	return -(error ?: ECONNABORTED);
}

/* The first step. Events that come of it are handled before this returns, by this thread; later ones as they come. */
static int rsocket_connect_begin(struct rsocket *rs, const struct sockaddr *address) REQUIRES(rs->lock)
{
	struct attendant attendant;
	int err = need_id(rs);

	if (err)
		return err;
	rsocket_set_state(rs, RS_RESOLVING);
	attendant_join(&attendant, -1);
	if (rdma_resolve_addr(rs->id, NULL, (struct sockaddr *)address, RESOLVE_MS)) {
		err = -errno;
		stream_fail(rs, 0);
	}
	lock_drop(&rs->lock);
	cm_events_run();
	attendant_leave(&attendant);
	lock_take(&rs->lock);
	return err;
}

int rsocket_connect(struct rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	int err = connect_check_address(rs, address, length);

	if (err)
		return err;
	switch (rsocket_state(rs)) {
	case RS_NEW:
	case RS_BOUND:
		err = rsocket_connect_begin(rs, address);
		break;
	case RS_LISTENING:
	case RS_CONNECTED:
		return -EISCONN;
	case RS_OVER:
		return rs->error ? outcome(rs) : -EISCONN;
	default:
		if (rsocket_is_nonblocking(rs))
			return -EALREADY;
	}
	if (!err && !connect_is_settled(rs)) {
		if (rsocket_is_nonblocking(rs))
			return -EINPROGRESS;
		err = rsocket_await(rs, connect_is_settled,
				    rs->falls_back ? clock_now() + TRY_TIME : rsocket_until(rs->send_ms));
		if (err == -EAGAIN)
			err = -EINPROGRESS;
	}
	return err ?: outcome(rs);
}

struct rsocket *rsocket_next(struct rsocket *rs)
{
	struct list *l = list_pop(&rs->accepted);

	return l ? container_of(l, struct rsocket, queue) : NULL;
}

static void close_listener(struct rsocket *rs)
{
	struct rsocket *waiting;

	lock_take(&rs->lock);
	rsocket_set_state(rs, RS_OVER);
	while ((waiting = rsocket_next(rs))) {
		lock_drop(&rs->lock);
		rsocket_put(waiting);
		lock_take(&rs->lock);
	}
	lock_drop(&rs->lock);
	cm_events_forget(rs);
}

static bool connect_drain(struct rsocket *rs) REQUIRES(rs->lock)
{
	for (uint64_t until = clock_now() + CLOSE_SPIN; !stream_is_drained(rs) && clock_now() < until;
	     stream_process(rs))
		rsocket_progress(rs);
	return stream_is_drained(rs);
}

/* True: all that was sent has an ACK, or never will. */
static bool connect_end_stream(struct rsocket *rs)
{
	bool drained;

	lock_take(&rs->lock);
	stream_process(rs);
	if (rsocket_state(rs) == RS_CONNECTED)
		stream_control(rs, stream_last_word(rs));
	rs->write_shut = rs->read_shut = true;
	drained = connect_drain(rs);
	lock_drop(&rs->lock);
	rsocket_wake(rs);
	return drained;
}

/* As an attendant, so that the service thread is not woken for the DREQ that the peer sends meanwhile. */
static void close_stream(struct rsocket *rs)
{
	struct attendant attendant;

	attendant_join(&attendant, -1);
	if (rsocket_state(rs) == RS_CONNECTED && !connect_end_stream(rs))
		closing_add(rs);
	else
		rsocket_put(rs);
	attendant_leave(&attendant);
}

void rsocket_close(struct rsocket *rs)
{
	rsocket_epoll_forget(rs);
	lock_take(&rs->lock);
	rs->keepalive = 0;
	if (rsocket_state(rs) == RS_CONNECTED)
		timeout_keepalive(rs);
	lock_drop(&rs->lock);
	if (is_datagram(rs)) {
		datagram_close(rs);
		rsocket_put(rs);
	} else if (rsocket_state(rs) == RS_LISTENING) {
		close_listener(rs);
		rsocket_put(rs);
	} else {
		close_stream(rs);
	}
}
