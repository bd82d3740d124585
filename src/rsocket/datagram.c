/* SPDX-License-Identifier: BSD-2-Clause */
/* What goes where: a datagram whose receiver's QP is known goes to it, all others over UDP, where the receiver's answer
 * tells its QP. So do those that are longer than the path allows. Nobody answers in the background: what has come by
 * UDP is looked at in every call, and a thread that sleeps wakes for it. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rsocket/datagram.h"
#include "rsocket/local.h"
#include "object/cq_poll.h"

#define BUCKETS	    64
#define BUCKET_MOST 64	/* peers known: who has been there longest goes */
#define UDP_MOST    256 /* that came by UDP and have not been read */
#define UDP_BATCH   32	/* taken at once */
#define UDP_EVERY   64	/* calls: at the latest then UDP is looked at */
#define CLOSE_MS    200 /* for what has been sent to go out */

/* Whom we send to. */
struct dest {
	struct list link;
	struct name name;
	struct local *local; /* by which of ours */
	struct ibv_ah *ah;   /* NULL: its QP is not known */
	uint32_t qpn;
};

struct bucket {
	struct list dests;
	uint32_t count;
};

struct datagram {
	struct list locals;
	struct list arrived;
	uint32_t by_udp; /* of those */
	uint32_t calls;
	struct bucket buckets[BUCKETS];
	bool connected;
	struct name peer;
};

int datagram_open(struct rsocket *rs) REQUIRES(rs->lock)
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

/* ---- peers ---- */

static struct bucket *bucket_of(struct datagram *d, const struct name *name)
{
	uint32_t sum = name->port;

	for (size_t i = 0; i < sizeof(name->ip); i++)
		sum = sum * 31 + name->ip[i];
	return &d->buckets[(sum ^ sum >> 16) % BUCKETS];
}

static void drop_dest(struct bucket *b, struct dest *dest)
{
	if (dest->ah)
		ibv_destroy_ah(dest->ah);
	list_remove(&dest->link);
	b->count--;
	free(dest);
}

/* What a datagram to there is sent from. */
static int own_address(struct rsocket *rs, const struct name *to, struct name *own)
{
	struct sockaddr_storage ss;
	socklen_t size = sizeof(ss), length = name_put(to, rs->domain, &ss);
	uint16_t port;
	int fd, err = 0;

	if (getsockname(rs->fd, (struct sockaddr *)&ss, &size) || name_get(own, (struct sockaddr *)&ss, size))
		return -errno;
	if (!name_is_any(own))
		return 0;
	port = own->port;
	fd = socket(rs->domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	name_put(to, rs->domain, &ss);
	size = sizeof(ss);
	if (connect(fd, (struct sockaddr *)&ss, length) || getsockname(fd, (struct sockaddr *)&ss, &size))
		err = -errno;
	close(fd);
	if (!err)
		err = name_get(own, (struct sockaddr *)&ss, size);
	own->port = port;
	return err;
}

static int need_local(struct rsocket *rs, const struct name *own, struct local **to) REQUIRES(rs->lock)
{
	int err;

	list_each (l, &rs->datagram->locals) {
		*to = container_of(l, struct local, link);
		if (name_is(&(*to)->name, own))
			return 0;
	}
	err = local_make(rs, own, to);
	if (err)
		return err;
	list_append(&rs->datagram->locals, &(*to)->link);
	rsocket_wake(rs); /* who sleeps has not armed its CQ */
	return 0;
}

/* 0 or -errno. */
static int make_dest(struct rsocket *rs, struct bucket *b, const struct name *name, struct dest **to) REQUIRES(rs->lock)
{
	struct local *local;
	struct name own;
	int err = own_address(rs, name, &own);

	if (!err)
		err = need_local(rs, &own, &local);
	if (err)
		return err;
	*to = calloc(1, sizeof(**to));
	if (!*to)
		return -ENOMEM;
	(*to)->name = *name;
	(*to)->local = local;
	if (b->count == BUCKET_MOST)
		drop_dest(b, container_of(b->dests.next, struct dest, link));
	list_append(&b->dests, &(*to)->link);
	b->count++;
	return 0;
}

static int find_dest(struct rsocket *rs, const struct name *name, struct dest **to) REQUIRES(rs->lock)
{
	struct bucket *b = bucket_of(rs->datagram, name);

	list_each (l, &b->dests) {
		*to = container_of(l, struct dest, link);
		if (name_is(&(*to)->name, name))
			return 0;
	}
	return make_dest(rs, b, name, to);
}

static void forget_dests(struct datagram *d)
{
	for (int i = 0; i < BUCKETS; i++)
		while (d->buckets[i].count)
			drop_dest(&d->buckets[i], container_of(d->buckets[i].dests.next, struct dest, link));
}

/* ---- UDP ---- */

static ssize_t send_udp(struct rsocket *rs, const struct dest *dest, enum rs_op op, const struct iovec *iov, int count)
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
static void datagram_learn(struct rsocket *rs, struct dest *dest, uint32_t qpn) REQUIRES(rs->lock)
{
	dest->qpn = qpn & 0xffffff;
	if (!dest->ah)
		dest->ah = local_ah(dest->local, &dest->name, (uint8_t)rs->tos);
}

static bool datagram_is_wanted(const struct datagram *d, const struct name *from)
{
	return !d->connected || name_is(&d->peer, from);
}

static void datagram_keep(struct rsocket *rs, const struct name *from, const void *data, size_t length)
	REQUIRES(rs->lock)
{
	struct datagram *d = rs->datagram;
	struct arrival *a;

	if (d->by_udp == UDP_MOST || !datagram_is_wanted(d, from))
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

	if (!rs_read_udp_header(&h, data, length) || find_dest(rs, from, &dest))
		return; /* not one of ours: no header */
	if (h.op == RS_OP_DATA)
		send_udp(rs, dest, RS_OP_CONTROL, NULL, 0);
	datagram_learn(rs, dest, from_be32(h.qpn));
	if (h.op == RS_OP_DATA)
		datagram_keep(rs, from, data + h.length, length - h.length);
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

/* Where it has come: a datagram of a peer. False: it is not wanted. */
static bool is_good(struct rsocket *rs, struct local *local, struct arrival *a, uint32_t bytes) REQUIRES(rs->lock)
{
	return local_parse(local, a, bytes) && datagram_is_wanted(rs->datagram, &a->name);
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

/* Until the test is true, if the caller waits. 0 or -errno; what has failed since is told once. */
static int datagram_ready(struct rsocket *rs, bool (*test)(struct rsocket *rs), int flags, int ms) REQUIRES(rs->lock)
{
	int err = 0;

	datagram_process(rs);
	if (!test(rs)) {
		/* relaxed: see stream.c waits() */
		if (!(flags & MSG_DONTWAIT) && !atomic_load_explicit(&rs->nonblocking, memory_order_relaxed)) {
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
	return name_is_any(&own) ? 0 : need_local(rs, &own, &local);
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
	return find_dest(rs, &to, &dest);
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
	/* a number of its own, as the peer has to know */
	if (!getsockname(rs->fd, (struct sockaddr *)&any, &size) && !((struct sockaddr_in *)&any)->sin_port &&
	    bind(rs->fd, (struct sockaddr *)&any, size))
		return -errno;
	return find_dest(rs, &name, dest);
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
		err = send_udp(rs, dest, RS_OP_DATA, iov, count);
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
	rsocket_set_state(rs, RS_OVER); /* the descriptor is about to be somebody else's */
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
	forget_dests(d);
	while ((l = list_pop(&d->arrived))) {
		struct arrival *a = container_of(l, struct arrival, link);

		if (!a->local)
			free(a);
	}
	while ((l = list_pop(&d->locals)))
		local_free(container_of(l, struct local, link));
	free(d);
}
