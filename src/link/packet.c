/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/packet.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/high_fd.h"
#include "base/log.h"
#include "link/netif.h"
#include "link/next_hop.h"
#include "link/packet_filter.h"
#include "link/tuned.h"
#include "link/udp.h"
#include "link/udp_receive.h"
#include "link/udp_send.h"
#include "link/udp_socket.h"

/* ---- receiving ---- */

static void set_from(struct udp *udp, const struct packet_frame *f)
{
	udp_address_of(udp, &f->from, f->port, &udp->from);
}

/* A frame that is longer than a slot. */
static int read_long(struct packet_link *p, struct packet_frame *f)
{
	uint32_t headers = packet_frame_headers(p->udp.is_ipv4);
	uint8_t head[FRAME_MOST] = {0};
	int n = packet_ring_read(&p->ring, head, headers, p->udp.buffer, sizeof(p->udp.buffer));

	return n < (int)headers ? -EBADMSG : packet_frame_parse(f, head, (uint32_t)n);
}

static int read_slot(struct packet_link *p, const struct packet_slot *slot, struct packet_frame *f)
{
	int err = slot->cut ? -EBADMSG : packet_frame_parse(f, slot->bytes, slot->length);

	if (!err)
		memcpy(p->udp.buffer, f->payload, f->bytes);
	return err;
}

/* Returns the number of packets in it. */
static uint32_t packet_take(struct packet_link *p, const struct packet_slot *slot, link_deliver *deliver, void *arg)
{
	struct packet_frame f;
	int err = slot->bytes ? read_slot(p, slot, &f) : read_long(p, &f);

	packet_ring_drop(&p->ring);
	if (unlikely(err)) {
		udp_count(&p->udp.counters.rx_malformed, 1);
		return 1;
	}
	udp_count(&p->rx_frames, 1);
	if (unlikely(!f.bytes))
		return 1;
	set_from(&p->udp, &f);
	return udp_take(&p->udp,
			&(struct udp_datagram){
				.bytes = f.bytes, .identification = f.identification, .traffic_class = f.traffic_class},
			deliver, arg);
}

static void look_at_changes(struct packet_link *p, uint64_t now)
{
	if (likely(now - p->watched < WATCH_AGAIN))
		return;
	p->watched = now;
	if (netif_changed(p->watch))
		atomic_fetch_add_explicit(&p->changes, 1, memory_order_relaxed);
}

static uint32_t packet_receive(struct link *link, uint32_t batch, link_deliver *deliver, void *arg)
{
	struct packet_link *p = container_of(link, struct packet_link, udp.link);
	struct packet_slot slot;
	uint32_t seen = 0;
	uint64_t now;

	while (seen < batch && packet_ring_look(&p->ring, &slot))
		seen += packet_take(p, &slot, deliver, arg);
	now = clock_now();
	if (likely(!link->look && now - p->looked < SOCKET_AGAIN))
		return seen;
	link->look = false;
	p->looked = now;
	look_at_changes(p, now);
	return seen + (seen < batch ? udp_receive(link, batch - seen, deliver, arg) : 0);
}

/* ---- opening and closing ---- */

static void packet_tell(const struct link *link)
{
	struct packet_link *p = container_of((struct link *)link, struct packet_link, udp.link);

	udp_tell(link);
	log_debug("packet link: of these, sent %" PRIu64 " trains as frames, received %" PRIu64 "; %" PRIu32
		  " frames found no room in the ring",
		  p->tx_frames, p->rx_frames, packet_ring_lost(&p->ring));
}

static void packet_stop(struct packet_link *p)
{
	close(p->udp.link.fd);
	close(p->watch);
	close(p->tx);
	packet_ring_close(&p->ring);
	udp_stop(&p->udp);
}

static void packet_close(struct link *link)
{
	struct packet_link *p = container_of(link, struct packet_link, udp.link);

	packet_stop(p);
	free(p);
}

/* In a child, where the ring is not mapped. */
static void packet_abandon(struct link *link)
{
	struct packet_link *p = container_of(link, struct packet_link, udp.link);

	p->ring.memory = NULL;
	packet_stop(p);
}

static const struct link_ops packet_ops = {
	.name = "packet",
	.send = packet_send,
	.capacity = packet_capacity,
	.room = udp_room,
	.receive = packet_receive,
	.tell = packet_tell,
	.close = packet_close,
	.abandon = packet_abandon,
};

/* The Ethernet interface that has the address, and its MTU; or -ENODEV. */
static int find_interface(const struct packet_link *p, const union ibv_gid *gid, uint32_t *mtu)
{
	int netif = netif_of_address(gid);
	struct ifreq r = {0};

	if (!netif || !if_indextoname((unsigned)netif, r.ifr_name) || ioctl(p->udp.link.socket, SIOCGIFHWADDR, &r) ||
	    r.ifr_hwaddr.sa_family != ARPHRD_ETHER || ioctl(p->udp.link.socket, SIOCGIFMTU, &r))
		return -ENODEV;
	*mtu = (uint32_t)r.ifr_mtu;
	return netif;
}

/* 0 or -errno. */
static int open_tx(struct packet_link *p)
{
	/* no protocol: nothing comes in; the kernel reads that of a frame that leaves in its Ethernet header */
	struct sockaddr_ll a = {.sll_family = AF_PACKET, .sll_ifindex = p->netif};
	int on = 1;

	p->tx = high_fd(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (p->tx < 0 || bind(p->tx, (struct sockaddr *)&a, sizeof(a)) ||
	    setsockopt(p->tx, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)))
		return -errno;
	udp_set_buffer(p->tx, SO_SNDBUFFORCE, SO_SNDBUF);
	return 0;
}

static int set_filter(int fd, struct sock_filter *program, uint16_t length)
{
	const struct sock_fprog f = {.len = length, .filter = program};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &f, sizeof(f)) ? -errno : 0;
}

/* From here on frames come to the ring and not to the UDP socket. */
static int part(struct packet_link *p, const uint16_t *slots, uint32_t count, bool begin)
{
	struct sock_filter program[PACKET_FILTER_LENGTH];
	int err = set_filter(p->ring.fd, program, packet_filter_ring(&p->udp.link.gid, slots, count, program));

	if (!err && begin)
		err = packet_ring_begin(&p->ring, p->netif);
	return err
		       ?: set_filter(p->udp.link.socket, program,
				     packet_filter_socket(p->udp.is_ipv4, p->netif, slots, count, program));
}

/* One descriptor for all of them. */
static int join_descriptors(struct packet_link *p)
{
	const int fd[] = {p->udp.link.socket, p->watch, p->ring.fd};

	p->udp.link.fd = high_fd(epoll_create1(EPOLL_CLOEXEC));
	if (p->udp.link.fd < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		struct epoll_event e = {.events = EPOLLIN};

		if (epoll_ctl(p->udp.link.fd, EPOLL_CTL_ADD, fd[i], &e))
			return -errno;
	}
	return 0;
}

static int open_ring(struct packet_link *p, uint32_t mtu)
{
	int err = packet_ring_open(&p->ring, mtu);

	if (err)
		return err;
	udp_set_buffer(p->ring.fd, SO_RCVBUFFORCE, SO_RCVBUF);
	p->udp.link.room = min_of(p->udp.link.room, packet_ring_room(&p->ring));
	return 0;
}

static int packet_start(struct packet_link *p, uint16_t slot)
{
	uint32_t mtu;
	int err = find_interface(p, &p->udp.link.gid, &mtu);

	if (err < 0)
		return err;
	p->netif = err;
	err = open_tx(p) ?: open_ring(p, mtu);
	if (err)
		return err;
	p->udp.link.ops = &packet_ops;
	p->watch = next_hop_watch();
	if (p->watch < 0)
		return p->watch;
	p->udp.tx_limit = min_of(p->udp.tx_limit, udp_buffer_of(p->tx, SO_SNDBUF) / 2);
	p->changes = 1;
	return join_descriptors(p) ?: part(p, &slot, 1, true);
}

bool link_is_packet(const struct link *link)
{
	return link->ops == &packet_ops;
}

int link_packet_part(struct link *link, const uint16_t *slots, uint32_t count)
{
	return part(container_of(link, struct packet_link, udp.link), slots, count, false);
}

int link_packet_open(const union ibv_gid *gid, uint16_t slot, struct link **link)
{
	/* not zeroed: see udp_start() */
	struct packet_link *p = aligned_alloc(_Alignof(struct packet_link), sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	memset(p, 0, offsetof(struct packet_link, udp));
	for (int i = 0; i < PACKET_HOPS; i++)
		lock_set_rank(&p->hop[i].lock, RANK_PACKET_HOP);
	p->tx = p->watch = p->ring.fd = -1;
	err = udp_start(&p->udp, gid, 0);
	if (err) {
		free(p);
		return err;
	}
	p->udp.link.fd = -1;
	err = packet_start(p, slot);
	if (err) {
		packet_stop(p);
		free(p);
		return err;
	}
	*link = &p->udp.link;
	return 0;
}
