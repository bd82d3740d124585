/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending: a train (link/train.h) is one frame that is longer than the interface takes, which the kernel cuts as late
 * as it can (PACKET_VNET_HDR with UDP's segmentation, Linux 6.2); else each packet is a frame. The headers stand before
 * the train's first piece, so that a short message is one piece.
 *
 * Multicast, addresses of this host, other interfaces and neighbors that the kernel has not found yet are left to the
 * udp link. */
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "link/packet.h"
#include "link/udp_send.h"
#include "link/udp_socket.h"

#define SEND_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif
#define UDP_SUM_AT 6 /* in the UDP header */

static_assert(sizeof(struct virtio_net_hdr) + FRAME_MOST <= TRAIN_HEAD, "the headers have room before a train");

/* Of a lone IPv4 packet there is no UDP checksum, as the kernel's rxe sends it. */
static struct virtio_net_hdr describe(const struct train *t, uint32_t headers, enum frame_sum sum)
{
	struct virtio_net_hdr v = {0};

	if (sum == FRAME_SUM_NONE)
		return v;
	v.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	v.csum_start = (uint16_t)(headers - 8);
	v.csum_offset = UDP_SUM_AT;
	if (t->packets == 1)
		return v;
	v.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
	v.hdr_len = (uint16_t)headers;
	v.gso_size = (uint16_t)t->size;
	return v;
}

/* Puts the headers before the train. Returns their number. */
static uint32_t put_headers(const struct packet_link *p, struct train *t, const struct link_tx *tx,
			    const uint8_t ethernet[FRAME_ETHERNET])
{
	uint32_t headers = packet_frame_headers(p->udp.is_ipv4), all = sizeof(struct virtio_net_hdr) + headers;
	enum frame_sum sum = p->udp.is_ipv4 && t->packets == 1 ? FRAME_SUM_NONE : FRAME_SUM_PSEUDO;
	const struct virtio_net_hdr v = describe(t, headers, sum);
	uint8_t *at = t->memory - all;

	memcpy(at, &v, sizeof(v));
	memcpy(at + sizeof(v), ethernet, FRAME_ETHERNET);
	packet_frame_put(
		&(struct packet_frame){
			.from = p->udp.link.gid,
			.to = *tx->dgid,
			.port = ROCE_PORT,
			.traffic_class = tx->traffic_class,
			/* as udp_send.c's */
			.hops = tx->hop_limit > 1 ? tx->hop_limit : UDP_HOP_DEFAULT,
			.flow_label = tx->flow_label,
			.bytes = t->bytes,
		},
		sum, at + sizeof(v));
	return all;
}

/* Not by glibc's functions: they are cancellation points. 0 or -errno. */
static int packet_transmit(const struct packet_link *p, struct train *t, uint32_t head)
{
	struct msghdr m = {.msg_iov = t->iov, .msg_iovlen = t->pieces};
	long n;

	t->iov[0].iov_base = (uint8_t *)t->iov[0].iov_base - head;
	t->iov[0].iov_len += head;
	do
		n = t->pieces > 1
			    ? syscall(SYS_sendmsg, p->tx, &m, SEND_FLAGS)
			    : syscall(SYS_sendto, p->tx, t->iov[0].iov_base, t->iov[0].iov_len, SEND_FLAGS, NULL, 0);
	while (unlikely(n < 0 && errno == EINTR));
	return n < 0 ? -errno : 0;
}

static int packet_send_train(struct packet_link *p, struct train *t, const uint8_t ethernet[FRAME_ETHERNET],
			     const struct link_tx *tx, uint32_t limit)
{
	int err;

	train_between(t, &p->udp.link.gid, tx->dgid);
	if (unlikely(!train_build(t, tx, limit)))
		return -EFAULT;
	err = packet_transmit(p, t, put_headers(p, t, tx, ethernet));
	if (unlikely(err))
		return err;
	udp_count(&p->tx_frames, 1);
	udp_count(&p->udp.counters.tx_trains, 1);
	udp_count(&p->udp.counters.tx_packets, t->packets);
	udp_count(&p->udp.counters.tx_bytes, t->bytes);
	udp_spend(&p->udp, t->bytes + t->packets * SKB_BYTES);
	return 0;
}

/* Some of the packets; how many, as link_ops' send() says. */
static uint32_t send_some(struct packet_link *p, struct train *t, const struct link_tx *tx, uint32_t count)
{
	bool singly = atomic_load_explicit(&p->one_by_one, memory_order_relaxed);
	uint8_t ethernet[FRAME_ETHERNET];
	int err;

	if (unlikely(!packet_hop_find(p, tx->dgid, ethernet)))
		return udp_send(&p->udp.link, tx, count);
	err = packet_send_train(p, t, ethernet, tx, singly ? 1 : count);
	if (unlikely(err == -EINVAL && t->packets > 1)) {
		atomic_store_explicit(&p->one_by_one, true, memory_order_relaxed);
		err = packet_send_train(p, t, ethernet, tx, 1);
	}
	if (likely(!err))
		return t->packets;
	if (err == -EFAULT)
		return LINK_UNREADABLE;
	if (err == -EAGAIN || err == -ENOBUFS) {
		udp_count(&p->udp.counters.tx_full, 1);
		return 0;
	}
	udp_count(&p->udp.counters.tx_refused, t->packets);
	return t->packets;
}

uint32_t packet_send(struct link *link, const struct link_tx *tx, uint32_t count)
{
	struct packet_link *p = container_of(link, struct packet_link, udp.link);
	struct train *t = train_of_thread();
	uint32_t done = 0;

	if (unlikely(!t))
		return count; /* lost: the requester sends them again */
	while (done < count) {
		uint32_t n = send_some(p, t, &tx[done], count - done);

		if (unlikely(!n || n & LINK_UNREADABLE))
			return done + n;
		done += n;
	}
	return done;
}

uint32_t packet_capacity(struct link *link)
{
	struct packet_link *p = container_of(link, struct packet_link, udp.link);
	uint32_t spare = atomic_load_explicit(&p->udp.tx_spare, memory_order_relaxed);

	if (unlikely(!train_of_thread()))
		return 0; /* nothing is lost: there may be memory later */
	if (likely(spare > p->udp.tx_limit / 2))
		return spare;
	return udp_capacity_of(&p->udp, udp_queued(p->tx));
}
