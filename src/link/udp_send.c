/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_send.h"

#include <errno.h>

#include "link/train.h"
#include "link/udp_options.h"
#include "link/udp_socket.h"
#include "link/udp_way.h"

/* The kernel numbers packets of a train from 0 if the socket is not connected. */
static void choose_start(struct udp *udp, struct train *t, const struct udp_way *way, const union ibv_gid *to)
{
	if (!way) {
		train_between(t, &udp->link.gid, to);
		return;
	}
	t->start = &way->flow;
	t->first = way->next;
}

static struct udp_options options_of(const struct train *t, const struct link_tx *tx)
{
	return (struct udp_options){
		.segment = t->packets > 1 ? t->size : 0,
		/* programs for InfiniBand leave 0 or 1, which would not pass a router */
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
void udp_spend(struct udp *udp, uint32_t bytes)
{
	uint32_t spare = atomic_load_explicit(&udp->tx_spare, memory_order_relaxed);

	atomic_store_explicit(&udp->tx_spare, spare > bytes ? spare - bytes : 0, memory_order_relaxed);
}

/* Space in a send buffer stays free until it is used, so the kernel is asked once for many trains. */
uint32_t udp_capacity(struct link *link)
{
	struct udp *udp = container_of(link, struct udp, link);
	uint32_t spare = atomic_load_explicit(&udp->tx_spare, memory_order_relaxed);

	if (unlikely(!train_of_thread()))
		return 0; /* no memory now; nothing is lost */
	return likely(spare > udp->tx_limit / 2) ? spare : udp_capacity_of(udp, 0);
}

uint32_t udp_capacity_of(struct udp *udp, uint32_t queued)
{
	uint32_t spare;

	queued = max_of(queued, max_of(udp_queued(udp->link.socket), udp_way_queued(udp)));
	spare = udp->tx_limit - min_of(queued, udp->tx_limit);
	atomic_store_explicit(&udp->tx_spare, spare, memory_order_relaxed);
	return spare;
}

/* Sends by a way; NULL: by the link's own socket. 0 or -errno: EFAULT if a payload cannot be read. */
static int send_by(struct udp *udp, struct train *t, struct udp_way *way, const struct link_tx *tx, uint32_t limit)
{
	int err;

	choose_start(udp, t, way, tx->dgid);
	if (unlikely(!train_build(t, tx, limit)))
		return -EFAULT;
	err = transmit(udp, t, way, tx);
	if (unlikely(err))
		return err;
	udp_count(&udp->counters.tx_trains, 1);
	udp_count(&udp->counters.tx_packets, t->packets);
	udp_count(&udp->counters.tx_bytes, t->bytes);
	udp_spend(udp, t->bytes + t->packets * SKB_BYTES);
	return 0;
}

/* Sends a train of `limit` packets at most. A datagram that a way refuses is sent by the link's own socket; but not if
 * the way's buffer is full, as it would overtake what waits there. */
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

/* Sends packets one by one. How many were sent or refused; LINK_UNREADABLE: the next one cannot be read. */
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

/* A small packet counts for less than twice SKB_BYTES; one more may be an ACK. */
void *udp_room(struct link *link, uint32_t *most)
{
	uint32_t packets = udp_capacity(link) / (2 * SKB_BYTES);

	*most = packets - 1;
	return likely(packets > 1) ? train_of_thread()->memory : NULL;
}

uint32_t udp_send(struct link *link, const struct link_tx *tx, uint32_t count)
{
	struct udp *udp = container_of(link, struct udp, link);
	struct train *t = train_of_thread();
	uint32_t done = 0;

	if (unlikely(!t))
		return count; /* no memory: lost, and sent again by the requester */
	while (done < count) {
		uint32_t limit = count - done, n;
		int err;

		if (unlikely(atomic_load_explicit(&udp->no_segments, memory_order_relaxed)))
			limit = 1;
		else if (unlikely(atomic_load_explicit(&udp->short_trains, memory_order_relaxed)))
			limit = min_of(limit, (uint32_t)TRAIN_BEFORE);
		err = send_train(udp, t, &tx[done], limit);
		if (unlikely(err == -EFAULT))
			return done | LINK_UNREADABLE;
		n = t->packets;
		if (unlikely(err == -EINVAL && n > TRAIN_BEFORE)) {
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
