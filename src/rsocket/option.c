/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/option.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>

#include "rsocket/flow.h"
#include "rsocket/timeout.h"

/* An int of struct rsocket. */
struct field {
	int level, name;
	size_t at;
	bool is_flag;	 /* any value but 0 counts as 1 */
	bool before_use; /* constant from connecting on */
	int least, most;
};

#define FIELD(level, name, field, is_flag, before, least, most)                            \
	{                                                                                  \
		level, name, offsetof(struct rsocket, field), is_flag, before, least, most \
	}
#define SIZE_MOST 0xfffe

static const struct field fields[] = {
	FIELD(SOL_SOCKET, SO_REUSEADDR, reuse, true, false, 0, 0),
	FIELD(SOL_SOCKET, SO_OOBINLINE, oob_inline, true, false, 0, 0),
	FIELD(SOL_SOCKET, SO_KEEPALIVE, keepalive, true, false, 0, 0),
	FIELD(IPPROTO_IP, IP_TOS, tos, false, false, 0, 255),
	FIELD(IPPROTO_TCP, TCP_NODELAY, nodelay, true, false, 0, 0),
	FIELD(IPPROTO_TCP, TCP_KEEPIDLE, keep_idle, false, false, 1, 32767),
	FIELD(IPPROTO_TCP, TCP_KEEPINTVL, keep_interval, false, false, 1, 32767),
	FIELD(IPPROTO_TCP, TCP_KEEPCNT, keep_count, false, false, 1, 127),
	FIELD(IPPROTO_IPV6, IPV6_V6ONLY, v6_only, true, true, 0, 0),
	FIELD(SOL_RDMA, RDMA_SQSIZE, sq_size, false, true, 1, SIZE_MOST),
	FIELD(SOL_RDMA, RDMA_RQSIZE, rq_size, false, true, 1, SIZE_MOST),
	FIELD(SOL_RDMA, RDMA_INLINE, inline_size, false, true, 0, SIZE_MOST),
	FIELD(SOL_RDMA, RDMA_IOMAPSIZE, iomap_size, false, true, 0, 127 << 8),
};

static const struct field *option_find(int level, int name)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (fields[i].level == level && fields[i].name == name)
			return &fields[i];
	return NULL;
}

static int *field_of(struct rsocket *rs, const struct field *f)
{
	return (int *)((char *)rs + f->at);
}

/* ---- setting ---- */

/* To what the device and the protocol can do. */
static void option_limit(struct rsocket *rs) REQUIRES(rs->lock)
{
	const uint32_t least = 16, most = HCA_MAX_QP_WR - 16;

	rs->sq_size = min_of(max_of(rs->sq_size, least), most);
	rs->rq_size = min_of(max_of(rs->rq_size, least), most);
	rs->inline_size = min_of(rs->inline_size, (uint32_t)HCA_MAX_INLINE);
	rs->iomap_size = rs_unscale(rs_scale(rs->iomap_size));
}

static int set_field(struct rsocket *rs, const struct field *f, int value) REQUIRES(rs->lock)
{
	if (f->before_use && rsocket_state(rs) >= RS_RESOLVING)
		return -EINVAL;
	if (f->is_flag)
		value = !!value;
	else if (value < f->least)
		return -EINVAL;
	else
		value = min_of(value, f->most);
	*field_of(rs, f) = value;
	if (f->level == SOL_RDMA)
		option_limit(rs);
	return 0;
}

/* Twice the value, as Linux does and reports. */
static int option_set_buffer(uint32_t *size, int value)
{
	*size = 2 * (uint32_t)min_of(max_of(value, RS_LOW_WATER), 1 << 28);
	return 0;
}

static int set_timeout(int *ms, const struct timeval *t)
{
	*ms = (int)(t->tv_sec * 1000 + (t->tv_usec + 999) / 1000);
	return 0;
}

static int set_route(struct rsocket *rs, const void *value, socklen_t length) REQUIRES(rs->lock)
{
	void *copy = malloc(length);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, value, length);
	free(rs->route);
	rs->route = copy;
	rs->route_bytes = length;
	return 0;
}

static int set_socket(struct rsocket *rs, int name, const void *value, socklen_t length) REQUIRES(rs->lock)
{
	const struct linger *linger = value;
	size_t needs = name == SO_LINGER			    ? sizeof(*linger)
		       : name == SO_RCVTIMEO || name == SO_SNDTIMEO ? sizeof(struct timeval)
								    : sizeof(int);

	if (length < needs)
		return -EINVAL;
	switch (name) {
	case SO_RCVBUF:
		return option_set_buffer(&rs->rx_bytes, *(const int *)value);
	case SO_SNDBUF:
		return option_set_buffer(&rs->tx_bytes, *(const int *)value);
	case SO_RCVTIMEO:
		return set_timeout(&rs->receive_ms, value);
	case SO_SNDTIMEO:
		return set_timeout(&rs->send_ms, value);
	case SO_LINGER:
		rs->lingers = linger->l_onoff;
		rs->linger_seconds = linger->l_linger;
		return 0;
	case SO_REUSEPORT:
	case SO_BROADCAST:
	case SO_RCVLOWAT:
	case SO_PRIORITY:
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

/* Options of TCP that have no effect here. */
static bool is_idle_option(int level, int name)
{
	return level == IPPROTO_TCP && (name == TCP_MAXSEG || name == TCP_CONGESTION || name == TCP_CORK ||
					name == TCP_QUICKACK || name == TCP_DEFER_ACCEPT || name == TCP_USER_TIMEOUT ||
					name == TCP_NOTSENT_LOWAT || name == TCP_FASTOPEN);
}

int option_set(struct rsocket *rs, int level, int name, const void *value, socklen_t length)
{
	const struct field *f = option_find(level, name);

	if (!value)
		return -EFAULT;
	if (f) {
		int err = length < sizeof(int) ? -EINVAL : set_field(rs, f, *(const int *)value);

		if (!err &&
		    (f->at == offsetof(struct rsocket, keepalive) || f->at == offsetof(struct rsocket, keep_idle)))
			timeout_keepalive(rs);
		return err;
	}
	if (level == SOL_SOCKET)
		return set_socket(rs, name, value, length);
	if (level == SOL_RDMA && name == RDMA_ROUTE)
		return set_route(rs, value, length);
	return is_idle_option(level, name) ? 0 : -ENOPROTOOPT;
}

/* ---- getting ---- */

static int option_give(void *to, socklen_t *room, const void *from, socklen_t length)
{
	*room = min_of(*room, length);
	memcpy(to, from, *room);
	return 0;
}

static int give_int(void *to, socklen_t *room, int value)
{
	return option_give(to, room, &value, sizeof(value));
}

static int give_ms(void *to, socklen_t *room, int ms)
{
	struct timeval t = {ms / 1000, ms % 1000 * 1000};

	return option_give(to, room, &t, sizeof(t));
}

static int get_error(struct rsocket *rs, void *to, socklen_t *room) REQUIRES(rs->lock)
{
	int error;

	stream_process(rs);
	error = rs->error;
	rs->error = 0;
	return give_int(to, room, error);
}

static int get_socket(struct rsocket *rs, int name, void *to, socklen_t *room) REQUIRES(rs->lock)
{
	struct linger linger = {rs->lingers, rs->linger_seconds};

	switch (name) {
	case SO_ERROR:
		return get_error(rs, to, room);
	case SO_TYPE:
		return give_int(to, room, rs->type);
	case SO_DOMAIN:
		return give_int(to, room, rs->domain);
	case SO_PROTOCOL:
		return give_int(to, room, is_datagram(rs) ? IPPROTO_UDP : IPPROTO_TCP);
	case SO_ACCEPTCONN:
		return give_int(to, room, rsocket_state(rs) == RS_LISTENING);
	case SO_RCVBUF:
		return give_int(to, room, (int)rs->rx_bytes);
	case SO_SNDBUF:
		return give_int(to, room, (int)rs->tx_bytes);
	case SO_RCVTIMEO:
		return give_ms(to, room, rs->receive_ms);
	case SO_SNDTIMEO:
		return give_ms(to, room, rs->send_ms);
	case SO_LINGER:
		return option_give(to, room, &linger, sizeof(linger));
	case SO_BROADCAST:
	case SO_REUSEPORT:
	case SO_PRIORITY:
		return give_int(to, room, 0);
	default:
		return -ENOPROTOOPT;
	}
}

static int segment(const struct rsocket *rs) REQUIRES(rs->lock)
{
	return rs->id && rs->id->route.num_paths ? 128 << rs->id->route.path_rec->mtu : 1024;
}

static int get_tcp(struct rsocket *rs, int name, void *to, socklen_t *room) REQUIRES(rs->lock)
{
	struct tcp_info info = {.tcpi_state = rsocket_state(rs) == RS_CONNECTED ? TCP_ESTABLISHED : TCP_CLOSE,
				.tcpi_snd_mss = (uint32_t)segment(rs),
				.tcpi_rcv_mss = (uint32_t)segment(rs),
				.tcpi_snd_cwnd = rs->sq_size};

	switch (name) {
	case TCP_MAXSEG:
		return give_int(to, room, segment(rs));
	case TCP_INFO:
		return option_give(to, room, &info, sizeof(info));
	case TCP_CONGESTION:
		return option_give(to, room, "rdma", 5);
	default:
		return is_idle_option(IPPROTO_TCP, name) ? give_int(to, room, 0) : -ENOPROTOOPT;
	}
}

static int get_route(struct rsocket *rs, void *to, socklen_t *room) REQUIRES(rs->lock)
{
	if (!rs->route)
		return -ENOPROTOOPT;
	return *room < rs->route_bytes ? -EINVAL : option_give(to, room, rs->route, (socklen_t)rs->route_bytes);
}

int option_get(struct rsocket *rs, int level, int name, void *to, socklen_t *room)
{
	const struct field *f = option_find(level, name);

	if (!to || !room)
		return -EFAULT;
	if (f)
		return give_int(to, room, *field_of(rs, f));
	switch (level) {
	case SOL_SOCKET:
		return get_socket(rs, name, to, room);
	case IPPROTO_TCP:
		return get_tcp(rs, name, to, room);
	case SOL_RDMA:
		return name == RDMA_ROUTE ? get_route(rs, to, room) : -ENOPROTOOPT;
	default:
		return -ENOPROTOOPT;
	}
}
