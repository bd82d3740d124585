/* SPDX-License-Identifier: BSD-2-Clause */
/* The link's own socket is not connected, so that it receives from all peers, and the IPv4 identification of what it
 * sends is known (wire/icrc.h). All processes of one user that use the address share the port: host/steering.h. */
#include "link/udp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/log.h"
#include "link/netif.h"
#include "link/udp_receive.h"
#include "link/udp_send.h"
#include "link/udp_socket.h"
#include "link/udp_way.h"

static int bind_to(const struct udp *udp)
{
	union udp_address a;
	socklen_t length = udp_address_of(udp, &udp->link.gid, ROCE_PORT, &a);

	return bind(udp->link.socket, &a.any, length) ? -errno : 0;
}

void udp_tell(const struct link *link)
{
	const struct udp_counters *c = link_udp_counters(link);

	log_debug("udp link: sent %" PRIu64 " packets in %" PRIu64 " trains, %" PRIu64 " refused, buffer full %" PRIu64
		  " times; received %" PRIu64 " packets in %" PRIu64 " trains, %" PRIu64 " with a wrong ICRC, %" PRIu64
		  " malformed, %" PRIu64 " errors",
		  c->tx_packets, c->tx_trains, c->tx_refused, c->tx_full, c->rx_packets, c->rx_trains, c->rx_icrc,
		  c->rx_malformed, c->rx_errors);
}

static void udp_close(struct link *link)
{
	struct udp *udp = container_of(link, struct udp, link);

	udp_stop(udp);
	free(udp);
}

/* In a child of fork(). */
static void udp_abandon(struct link *link)
{
	udp_stop(container_of(link, struct udp, link));
}

static const struct link_ops udp_ops = {
	.name = "udp",
	.send = udp_send,
	.capacity = udp_capacity,
	.room = udp_room,
	.receive = udp_receive,
	.tell = udp_tell,
	.close = udp_close,
	.abandon = udp_abandon,
};

static int join_group(const struct udp *udp, int netif)
{
	struct ip_mreqn v4 = {.imr_ifindex = netif};
	struct ipv6_mreq v6 = {.ipv6mr_interface = (unsigned)netif};
	int err;

	memcpy(&v4.imr_multiaddr, udp->link.gid.raw + 12, 4);
	memcpy(&v6.ipv6mr_multiaddr, udp->link.gid.raw, 16);
	err = udp->is_ipv4 ? setsockopt(udp->link.socket, IPPROTO_IP, IP_ADD_MEMBERSHIP, &v4, sizeof(v4))
			   : setsockopt(udp->link.socket, IPPROTO_IPV6, IPV6_JOIN_GROUP, &v6, sizeof(v6));
	return err ? -errno : 0;
}

/* Multicast leaves by the interface that has the address; with IPv4 that is the default. */
static void choose_interface(const struct udp *udp)
{
	int netif = udp->is_ipv4 ? 0 : netif_of_address(&udp->link.gid);

	if (netif)
		setsockopt(udp->link.socket, IPPROTO_IPV6, IPV6_MULTICAST_IF, &netif, sizeof(netif));
}

int udp_start(struct udp *udp, const union ibv_gid *gid, int group)
{
	int family = address_is_ipv4(gid) ? AF_INET : AF_INET6, fd, err;

	icrc_init();
	/* pages of the buffer that no datagram needs are never touched */
	memset(udp, 0, offsetof(struct udp, buffer));
	lock_set_rank(&udp->tx.lock, RANK_UDP_TX);
	udp->link.ops = &udp_ops;
	udp->link.gid = *gid;
	udp->is_ipv4 = family == AF_INET;
	udp->sees_marks = true; /* udp_set_receiving() */
	if (group)
		udp->scope = (uint32_t)group;
	else if (address_is_link_local(gid))
		udp->scope = netif_of_address(gid);
	udp->iov = (struct iovec){udp->buffer, sizeof(udp->buffer)};
	udp->message = (struct msghdr){
		.msg_name = &udp->from, .msg_iov = &udp->iov, .msg_iovlen = 1, .msg_control = udp->control};
	fd = high_fd(socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));
	if (fd < 0)
		return -errno;
	udp->link.fd = udp->link.socket = udp->tx.fd = fd;
	udp_set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF);
	udp->link.room = udp_buffer_of(fd, SO_RCVBUF);
	udp_way_init(udp);
	udp_set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF);
	err = udp_set_sending(family, fd) ?: udp_set_receiving(udp, fd, group);
	udp->tx_limit = udp_buffer_of(fd, SO_SNDBUF) / 2;
	if (!err)
		err = bind_to(udp);
	if (!err && group)
		err = join_group(udp, group);
	if (err)
		close(fd);
	else if (!group)
		choose_interface(udp);
	return err;
}

void udp_stop(struct udp *udp)
{
	udp_way_close(udp);
	close(udp->link.socket);
}

static int open_link(const union ibv_gid *gid, int group, struct link **link)
{
	struct udp *udp = aligned_alloc(_Alignof(struct udp), sizeof(*udp));
	int err = udp ? udp_start(udp, gid, group) : -ENOMEM;

	if (err)
		free(udp);
	else
		*link = &udp->link;
	return err;
}

int link_udp_open(const union ibv_gid *gid, struct link **link)
{
	return open_link(gid, 0, link);
}

int link_udp_join(const union ibv_gid *group, int netif, struct link **link)
{
	return open_link(group, netif, link);
}

int link_udp_sender(int family)
{
	int fd = high_fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP)), least = 1, err;
	struct sockaddr_in6 any = {.sin6_family = (sa_family_t)family}; /* an IPv4 address is zeros at the same place */

	if (fd < 0)
		return -errno;
	err = udp_set_sending(family, fd);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)); /* nothing is received */
	if (!err && bind(fd, (struct sockaddr *)&any, family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(any)))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

const struct udp_counters *link_udp_counters(const struct link *link)
{
	return &container_of((struct link *)link, struct udp, link)->counters;
}

void link_udp_count_icrc(struct link *link)
{
	udp_count(&container_of(link, struct udp, link)->counters.rx_icrc, 1);
}

void link_udp_refuse_long_trains(struct link *link)
{
	atomic_store_explicit(&container_of(link, struct udp, link)->short_trains, true, memory_order_relaxed);
}

void link_udp_refuse_segments(struct link *link)
{
	atomic_store_explicit(&container_of(link, struct udp, link)->no_segments, true, memory_order_relaxed);
}
