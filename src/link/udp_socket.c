/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_socket.h"

#include <errno.h>
#include <linux/sockios.h>
#include <linux/udp.h>
#include <string.h>
#include <sys/ioctl.h>

#include "link/tuned.h"

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

/* Without IP_MULTICAST_ALL 0, a socket receives from groups that other sockets have joined, on other interfaces. */
static const struct option multicast_options[] = {
	{0, SOL_SOCKET, SO_REUSEADDR, 1, true},
	{AF_INET, IPPROTO_IP, IP_MULTICAST_ALL, 0, true},
	{AF_INET6, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0, false},
};

/* Never in fragments; of the path MTU that both ends agreed on, also if ICMP has told the kernel of a smaller one. */
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

static int set_options(int fd, int family, const struct option *options, size_t count)
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
		setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof(bytes)); /* up to net.core.rmem_max or wmem_max */
}

uint32_t udp_buffer_of(int fd, int which)
{
	int bytes = 0;
	socklen_t size = sizeof(bytes);

	getsockopt(fd, SOL_SOCKET, which, &bytes, &size);
	return bytes;
}

int udp_set_sending(int family, int fd)
{
	return set_options(fd, family, sending_options, ARRAY_SIZE(sending_options));
}

int udp_set_receiving(const struct udp *udp, int fd, bool group)
{
	int family = udp->is_ipv4 ? AF_INET : AF_INET6, err = set_options(fd, family, options, ARRAY_SIZE(options));

	if (err)
		return err;
	return group ? set_options(fd, family, multicast_options, ARRAY_SIZE(multicast_options))
		     : set_options(fd, family, unicast_options, ARRAY_SIZE(unicast_options));
}

uint32_t udp_queued(int fd)
{
	int bytes = 0;

	return ioctl(fd, SIOCOUTQ, &bytes) ? 0 : (uint32_t)bytes;
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
