/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/arrivals.h"

#include <stdlib.h>
#include <string.h>

#include "object/cq_poll.h"

/* ---- UDP ---- */

int udp_message_send(struct rsocket *rs, const struct dest *dest, enum rs_op op, const struct iovec *iov, int count)
{
	struct rs_udp_header h = {
		.tag = to_be32(RS_UDP_TAG), .op = (uint8_t)op, .qpn = to_be32(dest->local->id->qp->qp_num)};
	const struct name *own = &dest->local->name;
	struct iovec all[1 + RS_MOST_IOVS] = {{&h, 0}};
	struct sockaddr_storage to;
	struct msghdr m = {.msg_name = &to,
			   .msg_namelen = name_put(&dest->name, rs->domain, &to),
			   .msg_iov = all,
			   .msg_iovlen = 1 + (size_t)count};

	h.version = name_is_v4(own) ? 4 : 6;
	h.length = name_is_v4(own) ? RS_UDP_V4_BYTES : RS_UDP_V6_BYTES;
	all[0].iov_len = h.length;
	memcpy(h.address, name_is_v4(own) ? own->ip + 12 : own->ip, name_is_v4(own) ? 4 : 16);
	if (count)
		memcpy(&all[1], iov, (size_t)count * sizeof(*iov));
	return sendmsg(rs->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The QP of a peer is known now. */
static void learn(struct rsocket *rs, struct dest *dest, uint32_t qpn) REQUIRES(rs->lock)
{
	dest->qpn = qpn & 0xffffff;
	if (!dest->ah)
		dest->ah = local_ah(dest->local, &dest->name, (uint8_t)rs->tos);
}

static bool is_wanted(const struct datagram *d, const struct name *from)
{
	return !d->connected || name_is(&d->peer, from);
}

static void keep(struct rsocket *rs, const struct name *from, const void *data, size_t length) REQUIRES(rs->lock)
{
	struct datagram *d = rs->datagram;
	struct arrival *a;

	if (d->by_udp == UDP_MAX || !is_wanted(d, from))
		return;
	a = malloc(sizeof(*a) + length);
	if (!a)
		return;
	*a = (struct arrival){.name = *from, .data = (uint8_t *)(a + 1), .length = (uint32_t)length};
	memcpy(a + 1, data, length);
	list_append(&d->arrived, &a->link);
	d->by_udp++;
}

static void take_udp_message(struct rsocket *rs, const uint8_t *data, size_t length, const struct name *from)
	REQUIRES(rs->lock)
{
	struct rs_udp_header h;
	struct dest *dest;

	if (!rs_read_udp_header(&h, data, length) || dest_find(rs, from, &dest))
		return; /* not of an rsocket */
	if (h.op == RS_OP_DATA)
		udp_message_send(rs, dest, RS_OP_CONTROL, NULL, 0);
	learn(rs, dest, from_be32(h.qpn));
	if (h.op == RS_OP_DATA)
		keep(rs, from, data + h.length, length - h.length);
}

static void take_udp(struct rsocket *rs) REQUIRES(rs->lock)
{
	uint8_t data[sizeof(struct rs_udp_header) + RS_DATAGRAM_MOST];

	for (int i = 0; i < UDP_BATCH; i++) {
		struct sockaddr_storage ss;
		socklen_t size = sizeof(ss);
		ssize_t n =
			recvfrom(rs->fd, data, sizeof(data), MSG_DONTWAIT | MSG_TRUNC, (struct sockaddr *)&ss, &size);
		struct name from;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			if (errno != EAGAIN)
				rs->error = errno; /* such as ECONNREFUSED */
			return;
		}
		if ((size_t)n <= sizeof(data) && !name_get(&from, (struct sockaddr *)&ss, size))
			take_udp_message(rs, data, (size_t)n, &from);
	}
}

/* ---- completions ---- */

static bool is_good(struct rsocket *rs, struct local *local, struct arrival *a, uint32_t bytes) REQUIRES(rs->lock)
{
	return local_parse(local, a, bytes) && is_wanted(rs->datagram, &a->name);
}

static uint32_t take_completions(struct rsocket *rs, struct local *local) REQUIRES(rs->lock)
{
	struct cqe batch[16];
	int n = cq_poll((struct cq *)local->cq, ARRAY_SIZE(batch), batch);

	for (int i = 0; i < n; i++) {
		uint32_t slot = (uint32_t)batch[i].wr_id;

		if (batch[i].wr_id & LOCAL_SEND) {
			local->free[local->frees++] = slot;
			if (batch[i].status != IBV_WC_SUCCESS)
				rs->error = EIO;
		} else if (batch[i].status == IBV_WC_SUCCESS) {
			if (is_good(rs, local, &local->arrivals[slot], batch[i].byte_len))
				list_append(&rs->datagram->arrived, &local->arrivals[slot].link);
			else
				local_post_receive(local, slot);
		}
	}
	return n > 0 ? (uint32_t)n : 0;
}

void datagram_process(struct rsocket *rs)
{
	struct datagram *d = rs->datagram;
	uint32_t n = 0;

	if (rsocket_state(rs) == RS_OVER)
		return;
	list_each (l, &d->locals)
		n += take_completions(rs, container_of(l, struct local, link));
	if (!n || ++d->calls % UDP_EVERY == 0)
		take_udp(rs);
}

void datagram_arm(struct rsocket *rs)
{
	lock_take(&rs->lock);
	list_each (l, &rs->datagram->locals)
		cq_request((struct cq *)container_of(l, struct local, link)->cq, false);
	lock_drop(&rs->lock);
}
