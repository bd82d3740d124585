/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending: packets become trains. A train is what one sendmsg() with UDP_SEGMENT takes: packets to one destination,
 * all of one size but the last, which may be smaller. Headers, small payloads, pads and ICRCs are laid out one after
 * the other in memory of the calling thread, so that a train of small packets is one piece; large payloads stay where
 * they are and are pieces of their own.
 *
 * One train per system call and not several by sendmmsg(): that is no faster (a system call is a tenth of what a train
 * costs), and this way the first train is on its way while the next one's ICRCs are computed. */
#include <errno.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/tsan.h"
#include "link/udp.h"
#include "memory/fault.h"

#define COPY_BYTES 512	/* payload up to here is copied: cheaper than two more pieces */
#define PIECES	   1024 /* UIO_MAXIOV */
#define SKB_BYTES  1024 /* what the kernel counts for a packet, besides its bytes; it is about this much */

/* A train in the making; one per thread, made at its first send. */
struct train {
	/* the ICRC's start for these two addresses: a pure function of them, so it is never stale */
	union ibv_gid from, to;
	struct icrc_flow flow;

	const struct icrc_flow *start; /* that of the socket that is to send */
	uint16_t first;		       /* IPv4 identification of the first packet */
	uint32_t packets, bytes;
	uint32_t size; /* UDP payload of every packet but the last */
	uint32_t last; /* ... and of the last */
	uint32_t pieces;
	uint8_t *piece; /* start of the piece that is still growing */
	uint8_t *at;	/* ... and its end */
	struct iovec iov[PIECES];
	/* packet_encode() may write PACKET_HEADERS bytes of which not all are used */
	uint8_t memory[UDP_TRAIN_BYTES + PACKET_HEADERS];
};

static _Thread_local struct train *own_train;
static pthread_key_t train_key;

static void udp_send_make_key(void)
{
	pthread_key_create(&train_key, free);
}

static struct train *make_train(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, udp_send_make_key);
	own_train = malloc(sizeof(*own_train));
	if (!own_train)
		return NULL;
	memset(own_train, 0, offsetof(struct train, iov));
	pthread_setspecific(train_key, own_train); /* frees it when the thread ends */
	return own_train;
}

static void finish_piece(struct train *t)
{
	if (t->at == t->piece)
		return;
	t->iov[t->pieces++] = (struct iovec){t->piece, t->at - t->piece};
	t->piece = t->at;
}

/* A READ response is copied whatever its size: its memory may change while it is sent, and then the ICRC would not
 * match. A requester's memory belongs to us until its completion. */
static bool is_copied(const struct packet *p)
{
	return p->length <= COPY_BYTES || opcode_info[p->opcode].flags & IS_RESPONSE;
}

static void copy_payload(struct train *t, const struct link_tx *tx)
{
	for (uint32_t i = 0; i < tx->iovs; i++) {
		memcpy(t->at, tx->iov[i].iov_base, tx->iov[i].iov_len);
		t->at += tx->iov[i].iov_len;
	}
}

static void append_zeros(struct train *t, uint32_t n)
{
	memset(t->at, 0, n);
	t->at += n;
}

/* `bytes`: of the whole packet. */
static void udp_send_append(struct train *t, const struct link_tx *tx, uint32_t bytes)
{
	const struct packet *p = tx->packet;
	uint32_t pad = packet_pad(p->length), icrc;
	uint8_t *header = t->at;
	size_t n = packet_encode(p, header);

	t->at += n;
	if (tx->placed || is_copied(p)) {
		if (tx->placed)
			t->at += p->length;
		else
			copy_payload(t, tx);
		append_zeros(t, pad);
		icrc = icrc_start(t->start, t->first + t->packets, bytes, header, t->at - header);
	} else {
		icrc = icrc_start(t->start, t->first + t->packets, bytes, header, n);
		finish_piece(t);
		for (uint32_t i = 0; i < tx->iovs; i++) {
			icrc = icrc_add(icrc, tx->iov[i].iov_base, tx->iov[i].iov_len);
			t->iov[t->pieces++] = tx->iov[i];
		}
		append_zeros(t, pad);
		icrc = icrc_add(icrc, t->at - pad, pad);
	}
	icrc_put(t->at, icrc);
	t->at += ICRC_BYTES;
	t->last = bytes;
	t->bytes += bytes;
	t->packets++;
	tsan_release(tsan_key(p->dest_qpn));
}

/* On one host a train arrives whole, at the socket that the first packet is for: so it is for one process
 * (loop/steering.h). */
static bool same_way(const struct link_tx *a, const struct link_tx *b)
{
	return (a->packet->dest_qpn ^ b->packet->dest_qpn) >> 16 == 0 && a->traffic_class == b->traffic_class &&
	       a->hop_limit == b->hop_limit && (a->dgid == b->dgid || !memcmp(a->dgid, b->dgid, sizeof(*a->dgid)));
}

static bool fits(const struct train *t, const struct link_tx *tx, uint32_t bytes)
{
	return t->last == t->size && bytes <= t->size && t->packets < UDP_TRAIN_PACKETS &&
	       t->bytes + bytes <= UDP_TRAIN_BYTES && t->pieces + tx->iovs + 2 <= PIECES;
}

/* What the ICRCs of the train begin with. The kernel numbers the packets of one that leaves by an unconnected socket
 * from 0. */
static void choose_start(struct udp *udp, struct train *t, const struct udp_way *way, const union ibv_gid *to)
{
	t->start = way ? &way->flow : &t->flow;
	t->first = way ? way->next : 0;
	if (way || (!memcmp(&t->to, to, sizeof(t->to)) && !memcmp(&t->from, &udp->link.gid, sizeof(t->from))))
		return;
	t->from = udp->link.gid;
	t->to = *to;
	icrc_flow_init(&t->flow, t->from.raw, t->to.raw, ROCE_PORT, ROCE_PORT);
}

/* As many of the packets as one train takes, `limit` at most; at least one. */
static void udp_send_build(struct train *t, const struct link_tx *tx, uint32_t limit)
{
	uint32_t bytes = packet_bytes(tx->packet);

	t->packets = t->bytes = t->pieces = 0;
	t->piece = t->at = t->memory;
	t->size = bytes;
	udp_send_append(t, tx, bytes);
	while (t->packets < limit) {
		const struct link_tx *next = &tx[t->packets];

		bytes = packet_bytes(next->packet);
		if (!fits(t, next, bytes) || !same_way(tx, next))
			break;
		udp_send_append(t, next, bytes);
	}
	finish_piece(t);
}

/* What udp_send_build() is to do. */
struct order {
	struct train *train;
	const struct link_tx *tx;
	uint32_t limit;
};

static void build_order(void *arg)
{
	const struct order *o = arg;

	udp_send_build(o->train, o->tx, o->limit);
}

/* udp_send_build(). False: it came upon a payload that cannot be read. */
static bool try_build(struct train *t, const struct link_tx *tx, uint32_t limit)
{
	if (tx->placed) { /* by who knows that it can */
		udp_send_build(t, tx, limit);
		return true;
	}
	return fault_try(build_order, &(struct order){t, tx, limit});
}

static struct udp_options options_of(const struct train *t, const struct link_tx *tx)
{
	return (struct udp_options){
		.segment = t->packets > 1 ? t->size : 0,
		/* programs that know only InfiniBand leave 0 or 1, which would not get past the first router */
		.hops = tx->hop_limit > 1 && tx->hop_limit != UDP_HOP_DEFAULT ? tx->hop_limit : 0,
		.traffic_class = tx->traffic_class,
	};
}

/* 0 or -errno. */
static int transmit(struct udp *udp, struct train *t, struct udp_way *way, const struct link_tx *tx)
{
	union udp_address to;
	struct udp_options options = options_of(t, tx);
	struct msghdr m = {.msg_iov = t->iov, .msg_iovlen = t->pieces};

	if (way) {
		lock_assert_held(&way->tx.lock); /* by udp_way_enter() */
		return udp_transmit_by(udp, &way->tx, &m, options, t->bytes);
	}
	m.msg_name = &to;
	m.msg_namelen = udp_address_of(udp, tx->dgid, ROCE_PORT, &to);
	return udp_transmit(udp, &m, options, t->bytes);
}

/* Two threads may both find the same bytes free: tx_limit is half of the buffer. */
static void spend(struct udp *udp, uint32_t bytes)
{
	uint32_t spare = atomic_load_explicit(&udp->tx_spare, memory_order_relaxed);

	atomic_store_explicit(&udp->tx_spare, spare > bytes ? spare - bytes : 0, memory_order_relaxed);
}

uint32_t udp_queued(int fd)
{
	int bytes = 0;

	return ioctl(fd, SIOCOUTQ, &bytes) ? 0 : (uint32_t)bytes;
}

/* A send buffer only empties while nobody sends. So what was free once stays free until it is spent, and the kernel is
 * asked once for many trains. */
uint32_t udp_capacity(struct link *link)
{
	struct udp *udp = container_of(link, struct udp, link);
	uint32_t spare = atomic_load_explicit(&udp->tx_spare, memory_order_relaxed), queued;

	if (likely(spare > udp->tx_limit / 2))
		return spare;
	queued = max_of(udp_queued(link->fd), udp_way_queued(udp));
	spare = udp->tx_limit - min_of(queued, udp->tx_limit);
	atomic_store_explicit(&udp->tx_spare, spare, memory_order_relaxed);
	return spare;
}

/* By a way; NULL: by the link's own socket. 0 or -errno: EFAULT if a payload cannot be read. */
static int send_by(struct udp *udp, struct train *t, struct udp_way *way, const struct link_tx *tx, uint32_t limit)
{
	int err;

	choose_start(udp, t, way, tx->dgid);
	if (unlikely(!try_build(t, tx, limit)))
		return -EFAULT;
	err = transmit(udp, t, way, tx);
	if (unlikely(err))
		return err;
	udp_count(&udp->counters.tx_trains, 1);
	udp_count(&udp->counters.tx_packets, t->packets);
	udp_count(&udp->counters.tx_bytes, t->bytes);
	spend(udp, t->bytes + t->packets * SKB_BYTES);
	return 0;
}

/* A train of `limit` packets at most. What a way refuses the link's own socket may take, or it knows better why not. If
 * a way's buffer is full, the other socket's is no help: there the train would overtake what waits. */
static int send_train(struct udp *udp, struct train *t, const struct link_tx *tx, uint32_t limit)
{
	struct udp_way *way = udp_way_enter(udp, tx->dgid);
	int err;

	if (way) {
		err = send_by(udp, t, way, tx, limit);
		udp_way_leave(way, err);
		if (likely(!err) || err == -EFAULT || err == -EAGAIN)
			return err;
	}
	return send_by(udp, t, NULL, tx, limit);
}

/* Packets one by one; how many are done with, or LINK_UNREADABLE as well. */
static uint32_t send_singly(struct udp *udp, struct train *t, const struct link_tx *tx, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		int err = send_train(udp, t, &tx[i], 1);

		if (err == -EFAULT)
			return i | LINK_UNREADABLE;
		if (err == -EAGAIN)
			return i;
		if (err)
			udp_count(&udp->counters.tx_refused, 1);
		else if (count > 1)
			atomic_store_explicit(&udp->no_segments, true, memory_order_relaxed);
	}
	return count;
}

void *udp_room(struct link *link)
{
	struct train *t = own_train ?: make_train();

	return t && udp_capacity(link) >= 4 * SKB_BYTES ? t->memory : NULL;
}

uint32_t udp_send(struct link *link, const struct link_tx *tx, uint32_t count)
{
	struct udp *udp = container_of(link, struct udp, link);
	struct train *t = own_train ?: make_train();
	uint32_t done = 0;

	if (unlikely(!t))
		return count; /* lost: the requester sends them again */
	while (done < count) {
		uint32_t limit = count - done, n;
		int err;

		if (unlikely(atomic_load_explicit(&udp->no_segments, memory_order_relaxed)))
			limit = 1;
		else if (unlikely(atomic_load_explicit(&udp->short_trains, memory_order_relaxed)))
			limit = min_of(limit, (uint32_t)UDP_TRAIN_BEFORE);
		err = send_train(udp, t, &tx[done], limit);
		if (unlikely(err == -EFAULT))
			return done | LINK_UNREADABLE;
		n = t->packets;
		if (unlikely(err == -EINVAL && n > UDP_TRAIN_BEFORE)) {
			atomic_store_explicit(&udp->short_trains, true, memory_order_relaxed);
			continue;
		}
		if (unlikely(err)) {
			if (n > 1 && udp_may_lack_segments(err))
				n = send_singly(udp, t, &tx[done], n);
			else if (err != -EAGAIN)
				udp_count(&udp->counters.tx_refused, n);
			else
				n = 0;
			if (n & LINK_UNREADABLE)
				return done + n;
			if (n == 0) {
				udp_count(&udp->counters.tx_full, 1);
				return done;
			}
		}
		done += n;
	}
	return done;
}
