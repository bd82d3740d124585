/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/stream.h"

#include <string.h>

#include "progress/poll.h"
#include "rsocket/await.h"
#include "rsocket/cm_events.h"
#include "rsocket/flow.h"
#include "rsocket/iomap.h"
#include "rsocket/tuned.h"
#include "rsocket/waiter.h"
#include "verbs/context.h"
#include "object/qp.h"
#include "verbs/post.h"

#define PLACED_IOVS 8

/* A position in a list of buffers. */
struct cursor {
	const struct iovec *iov;
	int count;
	size_t at; /* in the first */
};

static size_t total(const struct iovec *iov, int count)
{
	size_t n = 0;

	for (int i = 0; i < count; i++)
		n += iov[i].iov_len;
	return n;
}

/* The next contiguous bytes, `most` at most. Their number. */
static size_t take_part(struct cursor *c, size_t most, struct iovec *part)
{
	size_t n = min_of(most, c->iov->iov_len - c->at);

	*part = (struct iovec){(char *)c->iov->iov_base + c->at, n};
	c->at += n;
	if (c->at == c->iov->iov_len) {
		c->iov++;
		c->count--;
		c->at = 0;
	}
	return n;
}

/* Copies `length` bytes between the buffers and `flat`, one way or the other. */
static void stream_copy(struct cursor *c, void *flat, size_t length, bool out)
{
	struct iovec part;

	for (size_t n; length; length -= n, flat = (char *)flat + n) {
		n = take_part(c, length, &part);
		if (out)
			memcpy(flat, part.iov_base, n);
		else
			memcpy(part.iov_base, flat, n);
	}
}

static int write_inline(struct rsocket *rs, struct cursor *c, uint32_t length, struct rs_sge to) REQUIRES(rs->lock)
{
	char bytes[HCA_MAX_INLINE];
	struct ibv_sge sge = {.addr = (uintptr_t)bytes, .length = length};

	stream_copy(c, bytes, length, true);
	return stream_post_data(rs, &sge, 1, IBV_WR_RDMA_WRITE_WITH_IMM, rs_message(RS_OP_DATA, length), 0,
				IBV_SEND_INLINE, to.address, to.key);
}

static int write_staged(struct rsocket *rs, struct cursor *c, uint32_t length, struct rs_sge to) REQUIRES(rs->lock)
{
	struct ibv_sge sge[2];
	int n = stream_place(&rs->stream, length, sge);

	for (int i = 0; i < n; i++)
		stream_copy(c, (void *)(uintptr_t)sge[i].addr, sge[i].length, true);
	if (length > TRAIN_PACKETS * ((struct qp *)rs->id->qp)->mtu)
		return stream_post_much(rs, sge, n, length, to.address, to.key);
	return stream_post_data(rs, sge, n, IBV_WR_RDMA_WRITE_WITH_IMM, rs_message(RS_OP_DATA, length), length, 0,
				to.address, to.key);
}

/* Writes to the memory of a local peer. The order with requests posted before does not matter: the peer has granted
 * that piece of its ring. False: nothing has been done. */
static bool write_placed(struct rsocket *rs, struct cursor *c, uint32_t length, struct rs_sge to, int *err)
	REQUIRES(rs->lock)
{
	struct iovec from[PLACED_IOVS];
	struct cursor after = *c;
	unsigned n = 0;

	for (uint32_t left = length; left; n++) {
		if (n == PLACED_IOVS)
			return false;
		left -= take_part(&after, left, &from[n]);
	}
	if (!post_placed(rs->id->qp, from, n, length, to.address, to.key))
		return false;
	*c = after;
	*err = stream_post_data(rs, NULL, 0, IBV_WR_RDMA_WRITE_WITH_IMM, rs_message(RS_OP_DATA, length), 0, 0, 0, 0);
	return true;
}

static int write_message(struct rsocket *rs, struct cursor *c, uint32_t length, struct rs_sge to) REQUIRES(rs->lock)
{
	int err;

	if (length <= rs->inline_size)
		return write_inline(rs, c, length, to);
	return write_placed(rs, c, length, to, &err) ? err : write_staged(rs, c, length, to);
}

/* One message. Its length or -errno. */
static int stream_send_piece(struct rsocket *rs, struct cursor *c, size_t left) REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;
	struct rs_sge *w = &s->window[s->target], to = *w;
	uint32_t length = (uint32_t)min_of(left, (size_t)MESSAGE_MAX);
	int err;

	length = min_of(min_of(length, w->length), s->tx_size - s->tx_used);
	w->address += length;
	w->length -= length;
	if (!w->length)
		s->target = (s->target + 1) % RS_TARGETS;
	s->sent++;
	err = write_message(rs, c, length, to);
	if (err) {
		stream_fail(rs, -err);
		return err;
	}
	return (int)length;
}

/* A thread that copies much polls too; else the helper takes it for busy, and takes over. */
static void stream_look_around(uint32_t copied)
{
	if (copied >= LOOK_AROUND_AFTER)
		loop_look_around();
}

static bool stream_may_send(struct rsocket *rs) REQUIRES(rs->lock)
{
	return rsocket_state(rs) != RS_CONNECTED || rs->write_shut || stream_can_send(rs);
}

static bool stream_is_settled(struct rsocket *rs)
{
	return rsocket_state(rs) >= RS_CONNECTED || rsocket_state(rs) < RS_RESOLVING;
}

/* rs->error, told once, and `afterwards` from then on. */
static int take_error(struct rsocket *rs, int afterwards) REQUIRES(rs->lock)
{
	int error = rs->error ?: afterwards;

	rs->error = 0;
	return -error;
}

static int check_send(struct rsocket *rs) REQUIRES(rs->lock)
{
	if (rsocket_state(rs) == RS_OVER)
		return take_error(rs, EPIPE);
	if (rsocket_state(rs) != RS_CONNECTED)
		return -ENOTCONN;
	return rs->write_shut ? -EPIPE : 0;
}

/* Waits while the connection is being established. */
static int stream_settle(struct rsocket *rs, int flags) REQUIRES(rs->lock)
{
	return likely(stream_is_settled(rs)) ? 0 : rsocket_ready(rs, stream_is_settled, flags, NEVER);
}

ssize_t stream_send(struct rsocket *rs, const struct iovec *iov, int count, int flags)
{
	struct cursor c = {iov, count, 0};
	size_t left = total(iov, count), all = left;
	uint64_t until = rsocket_until(rs->send_ms);
	int err = stream_settle(rs, flags);

	if (!err && !list_empty(&rs->stream.maps_pending))
		err = iomap_publish(rs, flags);
	while (left && !err) {
		int n;

		err = (stream_can_send(rs) ? 0 : rsocket_ready(rs, stream_may_send, flags, until)) ?: check_send(rs);
		if (err)
			break;
		n = stream_send_piece(rs, &c, left);
		if (n < 0)
			err = n;
		else
			left -= (size_t)n;
		stream_look_around((uint32_t)max_of(n, 0));
	}
	if (!all && !err)
		err = check_send(rs);
	return left == all && err ? err : (ssize_t)(all - left);
}

/* ---- receiving ---- */

static bool stream_may_receive(struct rsocket *rs) REQUIRES(rs->lock)
{
	return rs->stream.rx_ready || rs->peer_shut || rs->read_shut || rsocket_state(rs) != RS_CONNECTED;
}

/* For a call that is not a bridge's. */
static bool may_receive_here(struct rsocket *rs) REQUIRES(rs->lock)
{
	return rs->given || stream_may_receive(rs);
}

/* For MSG_PEEK with MSG_WAITALL. */
static bool may_receive_all(struct rsocket *rs) REQUIRES(rs->lock)
{
	return rs->given || rs->stream.rx_ready >= rs->stream.rx_wanted || rs->peer_shut || rs->read_shut ||
	       rsocket_state(rs) != RS_CONNECTED;
}

static void take_bytes(struct rsocket *rs, struct cursor *c, uint32_t length, int flags)
{
	struct stream *s = &rs->stream;
	uint32_t first = min_of(length, s->rx_size - s->rx_head);

	if (!(flags & MSG_TRUNC)) { /* tcp(7): the bytes are discarded */
		stream_copy(c, s->rx + s->rx_head, first, false);
		stream_copy(c, s->rx, length - first, false);
	}
	if (flags & MSG_PEEK)
		return;
	s->rx_head = (s->rx_head + length) % s->rx_size;
	s->rx_ready -= length;
	s->rx_free += length;
}

static int check_receive(struct rsocket *rs) REQUIRES(rs->lock)
{
	if (rsocket_state(rs) == RS_OVER)
		return take_error(rs, 0);
	return rsocket_state(rs) == RS_CONNECTED ? 0 : -ENOTCONN;
}

ssize_t stream_receive(struct rsocket *rs, const struct iovec *iov, int count, int flags)
{
	struct stream *s = &rs->stream;
	struct cursor c = {iov, count, 0};
	size_t left = total(iov, count), all = left;
	uint64_t until = rsocket_until(rs->receive_ms);
	bool bridges = flags & RS_BRIDGES;
	int err = flags & MSG_ERRQUEUE ? -EAGAIN : flags & MSG_OOB ? -EINVAL : stream_settle(rs, flags);

	while (left && !err) {
		uint32_t n;

		if (unlikely(rs->given) && !bridges) {
			err = -ESTALE;
			break;
		}
		if (!s->rx_ready && left != all && !(flags & MSG_WAITALL))
			break;
		err = s->rx_ready ? 0
				  : rsocket_ready(rs, bridges ? stream_may_receive : may_receive_here, flags, until);
		if (unlikely(rs->given) && !bridges)
			continue;
		if (!err && (flags & MSG_PEEK) && (flags & MSG_WAITALL)) {
			s->rx_wanted =
				(uint32_t)min_of(left, (size_t)s->rx_size / 2); /* the ring has always room for half */
			rsocket_ready(rs, may_receive_all, flags, until); /* late or interrupted: less is returned */
		}
		n = (uint32_t)min_of(left, (size_t)s->rx_ready);
		if (!n && !err)
			err = check_receive(rs);
		if (!n)
			break;
		if (flags & MSG_PEEK) {
			take_bytes(rs, &c, n, flags);
			return n;
		}
		n = min_of(n, MESSAGE_MAX);
		take_bytes(rs, &c, n, flags);
		left -= n;
		stream_look_around(n);
		stream_process(rs); /* tells the peer of the room */
	}
	return left == all && err ? err : (ssize_t)(all - left);
}

/* ---- the end ---- */

static bool may_control(struct rsocket *rs) REQUIRES(rs->lock)
{
	return rsocket_state(rs) != RS_CONNECTED || rs->stream.controls < RS_CONTROLS - 2;
}

static int stream_say(struct rsocket *rs, enum rs_control what) REQUIRES(rs->lock)
{
	int err = rsocket_await_firmly(rs, may_control, NEVER);

	if (err || rsocket_state(rs) != RS_CONNECTED)
		return err;
	return stream_control(rs, what);
}

int stream_shutdown(struct rsocket *rs, int how)
{
	bool was_shut = rs->write_shut, writes = how == SHUT_WR || how == SHUT_RDWR;
	int err = 0;

	if (rsocket_state(rs) != RS_CONNECTED)
		return rsocket_state(rs) == RS_OVER ? 0 : -ENOTCONN;
	if (how != SHUT_WR)
		rs->read_shut = true;
	if (writes)
		rs->write_shut = true;
	/* the peer gets it after all data, as messages stay in order */
	if (writes && !was_shut)
		err = stream_say(rs, RS_SHUTDOWN);
	lock_drop(&rs->lock);
	rsocket_wake(rs);
	lock_take(&rs->lock);
	return err;
}

/* Without O_NONBLOCK, POLLOUT promises room for some KiB. */
static bool may_write(struct rsocket *rs) REQUIRES(rs->lock)
{
	return stream_may_send(rs) && (rsocket_is_nonblocking(rs) || rsocket_state(rs) != RS_CONNECTED ||
				       rs->write_shut || stream_has_room(rs));
}

short stream_events(struct rsocket *rs)
{
	short events = 0;

	stream_process(rs);
	switch (rsocket_state(rs)) {
	case RS_NEW:
	case RS_BOUND:
		return POLLOUT | POLLHUP;
	case RS_LISTENING:
		return list_empty(&rs->accepted) ? 0 : POLLIN | POLLRDNORM;
	case RS_RESOLVING:
	case RS_CONNECTING:
	case RS_ACCEPTING:
		return 0;
	case RS_PLAIN:
		return POLLNVAL; /* an ordinary socket now */
	case RS_CONNECTED:
	case RS_OVER:
		break;
	}
	if (rs->given)
		return POLLNVAL;
	if (stream_may_receive(rs))
		events |= POLLIN | POLLRDNORM;
	if (may_write(rs))
		events |= POLLOUT | POLLWRNORM;
	if (rs->peer_shut || rs->read_shut)
		events |= POLLRDHUP;
	/* as TCP: only the end of both directions is a hangup */
	if (rs->broken || ((rs->peer_shut || rs->read_shut) && rs->write_shut))
		events |= POLLHUP | POLLRDHUP;
	if (rs->error)
		events |= POLLERR;
	return events;
}
