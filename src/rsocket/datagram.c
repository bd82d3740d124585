/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/datagram.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rsocket/arrivals.h"
#include "rsocket/await.h"
#include "rsocket/waiter.h"

int datagram_open(struct rsocket *rs)
{
	struct datagram *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	list_init(&d->locals);
	list_init(&d->arrived);
	for (int i = 0; i < BUCKETS; i++)
		list_init(&d->buckets[i].dests);
	rs->datagram = d;
	return 0;
}

static bool can_receive(struct rsocket *rs) REQUIRES(rs->lock)
{
	return !list_empty(&rs->datagram->arrived) || rs->error || rsocket_state(rs) == RS_OVER;
}

static bool datagram_can_send(struct rsocket *rs) REQUIRES(rs->lock)
{
	if (rs->error || rsocket_state(rs) == RS_OVER)
		return true;
	list_each (l, &rs->datagram->locals)
		if (!container_of(l, struct local, link)->frees)
			return false;
	return true;
}

short datagram_events(struct rsocket *rs)
{
	datagram_process(rs);
	return (short)((can_receive(rs) ? POLLIN | POLLRDNORM : 0) |
		       (datagram_can_send(rs) ? POLLOUT | POLLWRNORM : 0) | (rs->error ? POLLERR : 0));
}

/* Waits for the test, if the call may sleep. 0 or -errno; rs->error is told once. */
static int datagram_ready(struct rsocket *rs, bool (*test)(struct rsocket *rs), int flags, int ms) REQUIRES(rs->lock)
{
	int err = 0;

	datagram_process(rs);
	if (!test(rs)) {
		if (rsocket_waits(rs, flags)) {
			err = rsocket_await(rs, test, rsocket_until(ms));
		} else {
			rsocket_progress(rs);
			datagram_process(rs);
			err = test(rs) ? 0 : -EAGAIN;
		}
	}
	if (!err && rsocket_state(rs) == RS_OVER)
		err = -EBADF;
	if (!err && rs->error) {
		err = -rs->error;
		rs->error = 0;
	}
	return err;
}

/* ---- the calls ---- */

static bool datagram_is_multicast(const struct name *name)
{
	return name_is_v4(name) ? name->ip[12] >= 0xe0 : name->ip[0] == 0xff;
}

static int take_address(struct rsocket *rs, const struct sockaddr *address, socklen_t length, struct name *to)
{
	int err = name_get(to, address, length);

	if (err)
		return err;
	return rs->domain == AF_INET && address->sa_family != AF_INET ? -EAFNOSUPPORT : 0;
}

int datagram_bind(struct rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	struct sockaddr_storage ss;
	struct local *local;
	struct name own;
	int err = take_address(rs, address, length, &own);

	if (err)
		return err;
	setsockopt(rs->fd, SOL_SOCKET, SO_REUSEADDR, &rs->reuse, sizeof(rs->reuse));
	if (rs->domain == AF_INET6)
		setsockopt(rs->fd, IPPROTO_IPV6, IPV6_V6ONLY, &rs->v6_only, sizeof(rs->v6_only));
	if (bind(rs->fd, address, length))
		return -errno;
	length = sizeof(ss);
	if (getsockname(rs->fd, (struct sockaddr *)&ss, &length) || name_get(&own, (struct sockaddr *)&ss, length))
		return -errno;
	return name_is_any(&own) ? 0 : dest_local(rs, &own, &local);
}

int datagram_connect(struct rsocket *rs, const struct sockaddr *address, socklen_t length)
{
	struct datagram *d = rs->datagram;
	struct sockaddr_storage ss;
	struct dest *dest;
	struct name to;
	int err;

	if (address && length >= sizeof(address->sa_family) && address->sa_family == AF_UNSPEC) {
		d->connected = false;
		return connect(rs->fd, address, length) ? -errno : 0;
	}
	err = take_address(rs, address, length, &to);
	if (err)
		return err;
	if (datagram_is_multicast(&to))
		return -EOPNOTSUPP;
	if (connect(rs->fd, address, length))
		return -errno;
	/* 0.0.0.0 is this host */
	length = sizeof(ss);
	if (getpeername(rs->fd, (struct sockaddr *)&ss, &length) || name_get(&to, (struct sockaddr *)&ss, length))
		return -errno;
	d->peer = to;
	d->connected = true;
	return dest_find(rs, &to, &dest);
}

static int receiver(struct rsocket *rs, const struct sockaddr *to, socklen_t length, struct dest **dest)
	REQUIRES(rs->lock)
{
	struct sockaddr_storage any = {.ss_family = (sa_family_t)rs->domain};
	socklen_t size = sizeof(any);
	struct name name = rs->datagram->peer;
	int err = !to && !rs->datagram->connected ? -EDESTADDRREQ : to ? take_address(rs, to, length, &name) : 0;

	if (err)
		return err;
	if (datagram_is_multicast(&name) || name_is_any(&name))
		return -EOPNOTSUPP;
	/* the peer answers to the port */
	if (!getsockname(rs->fd, (struct sockaddr *)&any, &size) && !((struct sockaddr_in *)&any)->sin_port &&
	    bind(rs->fd, (struct sockaddr *)&any, size))
		return -errno;
	return dest_find(rs, &name, dest);
}

ssize_t datagram_send(struct rsocket *rs, const struct iovec *iov, int count, int flags, const struct sockaddr *to,
		      socklen_t length)
{
	size_t total = 0;
	struct dest *dest;
	ssize_t err;

	if (count < 0 || count > RS_MOST_IOVS)
		return -EMSGSIZE;
	for (int i = 0; i < count; i++)
		total += iov[i].iov_len;
	if (total > RS_DATAGRAM_MOST)
		return -EMSGSIZE;
	err = datagram_ready(rs, datagram_can_send, flags, rs->send_ms);
	if (!err)
		err = receiver(rs, to, length, &dest);
	if (err)
		return err;
	if (dest->ah && dest->local->frees && local_fits(dest->local, total))
		err = local_send(dest->local, dest->ah, dest->qpn, iov, count);
	else
		err = udp_message_send(rs, dest, RS_OP_DATA, iov, count);
	return err ?: (ssize_t)total;
}

static size_t datagram_scatter(const struct iovec *iov, int count, const uint8_t *data, size_t length)
{
	size_t done = 0;

	for (int i = 0; i < count && done < length; i++) {
		size_t n = min_of(iov[i].iov_len, length - done);

		memcpy(iov[i].iov_base, data + done, n);
		done += n;
	}
	return done;
}

static void datagram_release(struct rsocket *rs, struct arrival *a) REQUIRES(rs->lock)
{
	list_remove(&a->link);
	if (a->local) {
		local_post_receive(a->local, (uint32_t)(a - a->local->arrivals));
	} else {
		rs->datagram->by_udp--;
		free(a);
	}
}

ssize_t datagram_receive(struct rsocket *rs, const struct iovec *iov, int count, int flags, struct sockaddr *from,
			 socklen_t *room)
{
	int err = datagram_ready(rs, can_receive, flags, rs->receive_ms);
	struct arrival *a;
	size_t n;

	if (err)
		return err;
	if (list_empty(&rs->datagram->arrived))
		return -EAGAIN; /* another thread has it */
	a = container_of(rs->datagram->arrived.next, struct arrival, link);
	n = datagram_scatter(iov, count, a->data, a->length);
	if (flags & MSG_TRUNC)
		n = a->length;
	if (from && room) {
		struct sockaddr_storage ss;
		socklen_t length = name_put(&a->name, rs->domain, &ss);

		memcpy(from, &ss, min_of(length, *room));
		*room = length;
	}
	if (!(flags & MSG_PEEK))
		datagram_release(rs, a);
	return (ssize_t)n;
}

/* ---- the end ---- */

static bool is_drained(struct rsocket *rs) REQUIRES(rs->lock)
{
	list_each (l, &rs->datagram->locals) {
		struct local *local = container_of(l, struct local, link);

		if (local->frees != local->sends)
			return false;
	}
	return true;
}

void datagram_close(struct rsocket *rs)
{
	lock_take(&rs->lock);
	if (!is_drained(rs))
		rsocket_await_firmly(rs, is_drained, rsocket_until(CLOSE_MS));
	rsocket_set_state(rs, RS_OVER); /* the number may be another descriptor soon */
	lock_drop(&rs->lock);
	rsocket_wake(rs);
}

void datagram_free(struct rsocket *rs)
{
	struct datagram *d;
	struct list *l;

	lock_assert_unshared(&rs->lock);
	d = rs->datagram;
	if (!d)
		return;
	dest_forget_all(d);
	while ((l = list_pop(&d->arrived))) {
		struct arrival *a = container_of(l, struct arrival, link);

		if (!a->local)
			free(a);
	}
	while ((l = list_pop(&d->locals)))
		local_free(container_of(l, struct local, link));
	free(d);
}
