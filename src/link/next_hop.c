/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/next_hop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_vlan.h>
#include <linux/neighbour.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/netlink.h"
#include "link/netif.h"
#include "link/tuned.h"

#define DISCARD 9 /* the discard service: RFC 863 */

/* An IP address as netlink has it. */
struct host {
	uint8_t family, bytes, address[16];
};

/* A question, and its answer. */
struct talk {
	struct nlmsghdr h;
	union {
		struct rtmsg route;
		struct ndmsg neighbor;
	} m;
	uint8_t attributes[4096];
};
static_assert(sizeof(struct rtmsg) == sizeof(struct ndmsg), "attributes begin behind either");

static struct host host_of(const union ibv_gid *gid)
{
	bool is_ipv4 = address_is_ipv4(gid);
	struct host h = {is_ipv4 ? AF_INET : AF_INET6, is_ipv4 ? 4 : 16, {0}};

	memcpy(h.address, gid->raw + 16 - h.bytes, h.bytes);
	return h;
}

static void next_hop_begin(struct talk *t, uint16_t type)
{
	memset(t, 0, offsetof(struct talk, attributes));
	t->h = (struct nlmsghdr){NLMSG_LENGTH(sizeof(t->m)), type, NLM_F_REQUEST, 1, 0};
}

static const struct rtattr *next_hop_find(const struct talk *t, uint16_t type)
{
	return netlink_find(&t->h, sizeof(t->m), type);
}

/* Whom frames to a host are for: that host, or a gateway. True in *ours: nobody else. Out of *netif, or, if that is 0,
 * wherever what leaves from that address goes: *netif tells. */
static int find_route(int fd, int *netif, const struct host *from, struct host *to, bool *ours)
{
	const struct rtattr *gateway, *out;
	struct talk t;
	int err;

	next_hop_begin(&t, RTM_GETROUTE);
	t.m.route.rtm_family = to->family;
	t.m.route.rtm_dst_len = to->bytes * 8;
	netlink_add(&t.h, RTA_DST, to->address, to->bytes);
	if (from) {
		t.m.route.rtm_src_len = from->bytes * 8;
		netlink_add(&t.h, RTA_SRC, from->address, from->bytes);
	}
	if (*netif)
		netlink_add(&t.h, RTA_OIF, netif, sizeof(*netif));
	err = netlink_ask(fd, &t.h, sizeof(t));
	if (err)
		return err;
	if (next_hop_find(&t, RTA_VIA) || next_hop_find(&t, RTA_ENCAP)) /* a gateway of another family; a tunnel */
		return -EAFNOSUPPORT;
	out = next_hop_find(&t, RTA_OIF);
	if (out && RTA_PAYLOAD(out) == sizeof(*netif))
		memcpy(netif, RTA_DATA(out), sizeof(*netif));
	*ours = t.m.route.rtm_type == RTN_LOCAL;
	gateway = next_hop_find(&t, RTA_GATEWAY);
	if (gateway && RTA_PAYLOAD(gateway) == to->bytes)
		memcpy(to->address, RTA_DATA(gateway), to->bytes);
	return 0;
}

/* 0 or -errno: -ENOENT: the kernel has not heard of it. */
static int ask_neighbor(int fd, int netif, const struct host *to, struct talk *t)
{
	next_hop_begin(t, RTM_GETNEIGH);
	t->m.neighbor.ndm_family = to->family;
	t->m.neighbor.ndm_ifindex = netif;
	netlink_add(&t->h, NDA_DST, to->address, to->bytes);
	return netlink_ask(fd, &t->h, sizeof(*t));
}

/* False: the kernel has not heard of that neighbor, or not yet. */
static bool find_neighbor(int fd, int netif, const struct host *to, uint8_t mac[6])
{
	const struct rtattr *lladdr;
	struct talk t;

	if (ask_neighbor(fd, netif, to, &t) || t.m.neighbor.ndm_state & (NUD_INCOMPLETE | NUD_FAILED))
		return false;
	lladdr = next_hop_find(&t, NDA_LLADDR);
	if (!lladdr || RTA_PAYLOAD(lladdr) != 6)
		return false;
	memcpy(mac, RTA_DATA(lladdr), 6);
	return true;
}

/* The kernel looks for whomever it has something to send to. */
static void next_hop_call(int netif, const struct host *to)
{
	int s = socket(to->family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (s < 0)
		return;
	if (to->family == AF_INET) {
		struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(DISCARD)};

		memcpy(&a.sin_addr, to->address, 4);
		sendto(s, NULL, 0, 0, (struct sockaddr *)&a, sizeof(a));
	} else {
		struct sockaddr_in6 a = {
			.sin6_family = AF_INET6, .sin6_port = htons(DISCARD), .sin6_scope_id = (uint32_t)netif};

		memcpy(&a.sin6_addr, to->address, 16);
		sendto(s, NULL, 0, 0, (struct sockaddr *)&a, sizeof(a));
	}
	close(s);
}

static int find_mac(int fd, int netif, struct host to, uint8_t mac[6])
{
	bool ours;
	int err = find_route(fd, &netif, NULL, &to, &ours);

	if (err || ours)
		return err;
	for (int i = 0; i < HOP_LOOKS; i++) {
		if (find_neighbor(fd, netif, &to, mac))
			return 0;
		if (i == 0)
			next_hop_call(netif, &to);
		poll(NULL, 0, HOP_INTERVAL);
	}
	return -EHOSTUNREACH;
}

/* RFC 1112, RFC 2464 */
static void map_group(const union ibv_gid *group, uint8_t mac[6])
{
	if (address_is_ipv4(group))
		memcpy(mac, (const uint8_t[]){0x01, 0x00, 0x5e, group->raw[13] & 0x7f, group->raw[14], group->raw[15]},
		       6);
	else
		memcpy(mac,
		       (const uint8_t[]){0x33, 0x33, group->raw[12], group->raw[13], group->raw[14], group->raw[15]},
		       6);
}

int next_hop_mac(int netif, const union ibv_gid *to, uint8_t mac[6])
{
	int fd, err;

	if (address_is_multicast(to)) {
		map_group(to, mac);
		return 0;
	}
	fd = netlink_open(NETLINK_ROUTE);
	if (fd < 0)
		return fd;
	err = find_mac(fd, netif, host_of(to), mac);
	close(fd);
	return err;
}

/* 1, 0 or -errno. */
static int has_neighbors(int netif)
{
	struct ifreq r = {0};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), result;

	if (s < 0)
		return -errno;
	result = if_indextoname((unsigned)netif, r.ifr_name) && !ioctl(s, SIOCGIFFLAGS, &r)
			 ? !(r.ifr_flags & (IFF_NOARP | IFF_LOOPBACK | IFF_POINTOPOINT))
			 : -errno;
	close(s);
	return result;
}

static int link_next_hop_look(int fd, int netif, const struct host *from, struct host to)
{
	struct talk t;
	bool ours;
	int err = find_route(fd, &netif, from, &to, &ours), neighbors;

	if (err || ours)
		return err;
	err = ask_neighbor(fd, netif, &to, &t);
	if (err ? err != -ENOENT : !(t.m.neighbor.ndm_state & (NUD_INCOMPLETE | NUD_FAILED)))
		return err;
	neighbors = has_neighbors(netif);
	if (neighbors <= 0)
		return neighbors;
	if (err || t.m.neighbor.ndm_state & NUD_FAILED)
		next_hop_call(netif, &to);
	return -EAGAIN;
}

int next_hop_look(int netif, const union ibv_gid *from, const union ibv_gid *to)
{
	struct host source = host_of(from);
	int fd, result;

	if (address_is_multicast(to))
		return 0;
	fd = netlink_open(NETLINK_ROUTE);
	if (fd < 0)
		return fd;
	result = link_next_hop_look(fd, address_is_link_local(to) ? netif : 0, &source, host_of(to));
	close(fd);
	return result;
}

/* `out`: the interface by which it must leave; 0: any. */
static int link_next_hop_now(int fd, int netif, int out, const struct host *from, struct host to, uint8_t mac[6])
{
	const struct rtattr *lladdr;
	struct talk t;
	bool ours;
	int err;

	err = find_route(fd, &out, from, &to, &ours);
	if (err)
		return err;
	if (ours || out != netif)
		return -EXDEV;
	err = ask_neighbor(fd, netif, &to, &t);
	if (err)
		return err == -ENOENT ? -EAGAIN : err;
	lladdr = next_hop_find(&t, NDA_LLADDR);
	if (t.m.neighbor.ndm_state & (NUD_INCOMPLETE | NUD_FAILED) || !lladdr || RTA_PAYLOAD(lladdr) != 6)
		return -EAGAIN;
	memcpy(mac, RTA_DATA(lladdr), 6);
	return t.m.neighbor.ndm_state & NUD_STALE ? NEXT_HOP_STALE : 0;
}

int next_hop_now(int netif, const union ibv_gid *from, const union ibv_gid *to, uint8_t mac[6])
{
	struct host source = host_of(from);
	int fd, result;

	if (address_is_multicast(to))
		return -EXDEV;
	fd = netlink_open(NETLINK_ROUTE);
	if (fd < 0)
		return fd;
	result = link_next_hop_now(fd, netif, address_is_link_local(to) ? netif : 0, &source, host_of(to), mac);
	close(fd);
	return result;
}

int next_hop_watch(void)
{
	return netlink_watch(RTMGRP_LINK | RTMGRP_NEIGH | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE);
}

uint16_t next_hop_vlan(const char *netif)
{
	struct vlan_ioctl_args a = {.cmd = GET_VLAN_VID_CMD};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool found;

	if (s < 0)
		return NO_VLAN;
	snprintf(a.device1, sizeof(a.device1), "%s", netif);
	found = !ioctl(s, SIOCGIFVLAN, &a);
	close(s);
	return found ? (uint16_t)a.u.VID : NO_VLAN;
}
