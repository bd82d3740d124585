/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/netif.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/netlink.h"

struct table {
	struct netif *row;
	int count, room, error;
	uint32_t best_metric; /* of the default routes seen */
};

static struct netif *netif_find(struct table *t, int index)
{
	for (int i = 0; i < t->count; i++)
		if (t->row[i].index == index)
			return &t->row[i];
	return NULL;
}

static uint32_t netif_number(const struct rtattr *a, uint32_t otherwise)
{
	return a && RTA_PAYLOAD(a) >= sizeof(uint32_t) ? *(const uint32_t *)RTA_DATA(a) : otherwise;
}

static void add_link(void *arg, const struct nlmsghdr *h)
{
	struct table *t = arg;
	const struct ifinfomsg *m = NLMSG_DATA(h);
	const struct rtattr *name = netlink_find(h, sizeof(*m), IFLA_IFNAME);
	const struct rtattr *mac = netlink_find(h, sizeof(*m), IFLA_ADDRESS);
	struct netif *n;

	if (h->nlmsg_type != RTM_NEWLINK || !name)
		return;
	if (t->count == t->room) {
		int room = t->room ? 2 * t->room : 8;

		n = realloc(t->row, (size_t)room * sizeof(*n));
		if (!n) {
			t->error = -ENOMEM;
			return;
		}
		t->row = n;
		t->room = room;
	}
	n = &t->row[t->count++];
	memset(n, 0, sizeof(*n));
	n->index = m->ifi_index;
	snprintf(n->name, sizeof(n->name), "%s", (const char *)RTA_DATA(name));
	n->up = m->ifi_flags & IFF_UP;
	n->running = n->up && (m->ifi_flags & IFF_RUNNING);
	n->loopback = m->ifi_flags & IFF_LOOPBACK;
	n->mtu = netif_number(netlink_find(h, sizeof(*m), IFLA_MTU), 0);
	if (mac && RTA_PAYLOAD(mac) == sizeof(n->mac))
		memcpy(n->mac, RTA_DATA(mac), sizeof(n->mac));
}

static void add_address(void *arg, const struct nlmsghdr *h)
{
	struct table *t = arg;
	const struct ifaddrmsg *m = NLMSG_DATA(h);
	const struct rtattr *a = netlink_find(h, sizeof(*m), IFA_LOCAL) ?: netlink_find(h, sizeof(*m), IFA_ADDRESS);
	uint32_t flags = netif_number(netlink_find(h, sizeof(*m), IFA_FLAGS), m->ifa_flags);
	uint32_t bytes = m->ifa_family == AF_INET ? 4 : 16;
	struct netif *n = h->nlmsg_type == RTM_NEWADDR ? netif_find(t, (int)m->ifa_index) : NULL;

	/* an address that is still being checked for duplicates cannot be bound yet; news of it will come */
	if (!n || !a || n->addresses == NETIF_ADDRESSES || (m->ifa_family != AF_INET && m->ifa_family != AF_INET6) ||
	    (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)))
		return;
	if (RTA_PAYLOAD(a) == bytes)
		gid_set(n->address[n->addresses++].raw, bytes == 4, RTA_DATA(a));
}

static void add_route(void *arg, const struct nlmsghdr *h)
{
	struct table *t = arg;
	const struct rtmsg *m = NLMSG_DATA(h);
	uint32_t metric = netif_number(netlink_find(h, sizeof(*m), RTA_PRIORITY), 0);
	struct netif *n = netif_find(t, (int)netif_number(netlink_find(h, sizeof(*m), RTA_OIF), 0));

	if (h->nlmsg_type != RTM_NEWROUTE || !n || m->rtm_dst_len || m->rtm_type != RTN_UNICAST)
		return;
	if (m->rtm_table != RT_TABLE_MAIN || metric >= t->best_metric)
		return;
	for (int i = 0; i < t->count; i++)
		t->row[i].default_route = false;
	t->best_metric = metric;
	n->default_route = true;
}

static void dump(int fd, int type, uint8_t family, struct table *t, void (*row)(void *, const struct nlmsghdr *))
{
	struct {
		struct nlmsghdr h;
		union { /* each starts with the family */
			struct rtgenmsg any;
			struct ifinfomsg link;
			struct ifaddrmsg address;
			struct rtmsg route;
		} m;
	} ask = {
		.h = {sizeof(ask), (uint16_t)type, NLM_F_REQUEST | NLM_F_DUMP, 1, 0},
	};

	ask.m.any.rtgen_family = family;
	if (!t->error)
		t->error = netlink_dump(fd, &ask.h, row, t) ?: t->error;
}

static int address_rank(const union ibv_gid *a)
{
	return address_is_ipv4(a) ? 0 : address_is_link_local(a) ? 2 : 1;
}

/* Stable: within a rank, the order in which the addresses were given stays. */
static void sort_addresses(struct netif *n)
{
	union ibv_gid sorted[NETIF_ADDRESSES];
	uint32_t count = 0;

	for (int rank = 0; rank < 3; rank++)
		for (uint32_t i = 0; i < n->addresses; i++)
			if (address_rank(&n->address[i]) == rank)
				sorted[count++] = n->address[i];
	memcpy(n->address, sorted, count * sizeof(*sorted));
}

static int netif_rank(const struct netif *n)
{
	return n->default_route ? 0 : n->loopback ? 2 : 1;
}

static int compare(const void *a, const void *b)
{
	const struct netif *x = a, *y = b;

	return netif_rank(x) - netif_rank(y) ?: x->index - y->index;
}

int netif_list(struct netif **list)
{
	struct table t = {.best_metric = UINT32_MAX};
	int fd = netlink_open(NETLINK_ROUTE);

	*list = NULL;
	if (fd < 0)
		return fd;
	dump(fd, RTM_GETLINK, AF_UNSPEC, &t, add_link);
	dump(fd, RTM_GETADDR, AF_UNSPEC, &t, add_address);
	dump(fd, RTM_GETROUTE, AF_INET, &t, add_route);
	if (t.best_metric == UINT32_MAX)
		dump(fd, RTM_GETROUTE, AF_INET6, &t, add_route);
	close(fd);
	if (t.error) {
		free(t.row);
		return t.error;
	}
	for (int i = 0; i < t.count; i++)
		sort_addresses(&t.row[i]);
	if (t.count)
		qsort(t.row, (size_t)t.count, sizeof(*t.row), compare);
	*list = t.row;
	return t.count;
}

int netif_of_address(const union ibv_gid *address)
{
	struct netif *list;
	int count = netif_list(&list), index = 0;

	for (int i = 0; i < count && !index; i++)
		for (uint32_t a = 0; a < list[i].addresses; a++)
			if (memcmp(&list[i].address[a], address, sizeof(*address)) == 0)
				index = list[i].index;
	free(list);
	return index;
}

uint32_t netif_speed(const char *name)
{
	char path[64 + IF_NAMESIZE];
	long speed = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
	f = fopen(path, "rce");
	if (!f)
		return 0;
	if (fscanf(f, "%ld", &speed) != 1 || speed < 0)
		speed = 0;
	fclose(f);
	return (uint32_t)speed;
}

int netif_watch(void)
{
	return netlink_watch(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR);
}

bool netif_changed(int watch)
{
	bool any = false;
	char page[8192];

	/* ENOBUFS: news was lost, which is news enough */
	while (recv(watch, page, sizeof(page), MSG_TRUNC) >= 0 || errno == ENOBUFS)
		any = true;
	return any;
}
