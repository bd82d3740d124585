/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket of a udp link: unconnected, so that it receives from all and the IPv4 identification of what it sends is
 * known (wire/icrc.h), and shared by all processes of one user that use the address (host/steering.h says which of them
 * gets what). */
#include "link/udp.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/log.h"
#include "link/netif.h"
#include "wire/icrc.h"

#define BUFFER_BYTES (4 << 20) /* asked for; the kernel gives what net.core.rmem_max and wmem_max allow */

struct option {
	int family; /* 0: both */
	int level, name, value;
	bool needed;
};

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29 /* Linux 4.20 */
#endif

static const struct option unicast_options[] = {
	{0, SOL_SOCKET, SO_REUSEPORT, 1, true},
};

/* Otherwise a socket gets what comes to groups that others have joined, on other interfaces. */
static const struct option multicast_options[] = {
	{0, SOL_SOCKET, SO_REUSEADDR, 1, true},
	{AF_INET, IPPROTO_IP, IP_MULTICAST_ALL, 0, true},
	{AF_INET6, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0, false},
};

/* Never in fragments; and as long as the ends have agreed on, whatever the kernel has heard of the way (ICMP). */
static const struct option sending_options[] = {
	{AF_INET, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE, true},
	{AF_INET6, IPPROTO_IPV6, IPV6_V6ONLY, 1, true},
	{AF_INET6, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE, true},
};

static const struct option options[] = {
	{AF_INET, IPPROTO_IP, IP_RECVTOS, 1, false},
	{AF_INET6, IPPROTO_IPV6, IPV6_RECVTCLASS, 1, false},
	{AF_INET6, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1, true}, /* the kernel's rxe sends UDP checksum 0 */
	{0, IPPROTO_UDP, UDP_GRO, 1, false},
};

static int udp_set_options(int fd, int family, const struct option *options, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct option *o = &options[i];

		if (o->family && o->family != family)
			continue;
		if (setsockopt(fd, o->level, o->name, &o->value, sizeof(o->value)) && o->needed)
			return -errno;
	}
	return 0;
}

void udp_set_buffer(int fd, int force, int plain)
{
	int bytes = BUFFER_BYTES;

	if (setsockopt(fd, SOL_SOCKET, force, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof(bytes)); /* what there is must do */
}

uint32_t udp_buffer_of(int fd, int which)
{
	int bytes = 0;
	socklen_t size = sizeof(bytes);

	getsockopt(fd, SOL_SOCKET, which, &bytes, &size);
	return bytes;
}

int udp_set_sending(const struct udp *udp, int fd)
{
	udp_set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF);
	return udp_set_options(fd, udp->is_ipv4 ? AF_INET : AF_INET6, sending_options, ARRAY_SIZE(sending_options));
}

socklen_t udp_address_of(const struct udp *udp, const union ibv_gid *gid, uint16_t port, union udp_address *a)
{
	if (udp->is_ipv4) {
		a->in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		memcpy(&a->in.sin_addr, gid->raw + 12, 4);
		return sizeof(a->in);
	}
	a->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_scope_id = udp->scope};
	memcpy(&a->in6.sin6_addr, gid->raw, 16);
	return sizeof(a->in6);
}

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

/* In a child. */
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

/* Multicast leaves by the interface that has the address. Of IPv4, the kernel sees to it by itself. */
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
	udp->link.ops = &udp_ops;
	udp->link.gid = *gid;
	udp->is_ipv4 = family == AF_INET;
	udp->sees_marks = true; /* by the options */
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
	err = udp_set_sending(udp, fd) ?: udp_set_options(fd, family, options, ARRAY_SIZE(options));
	if (!err)
		err = group ? udp_set_options(fd, family, multicast_options, ARRAY_SIZE(multicast_options))
			    : udp_set_options(fd, family, unicast_options, ARRAY_SIZE(unicast_options));
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
	err = udp_set_options(fd, family, sending_options, ARRAY_SIZE(sending_options));
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
