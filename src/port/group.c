/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups. Each group that QPs of this process are attached to has a port, so that the kernel gives every
 * process a copy of each packet; deliver_group() gives each QP a copy. */
#include "port/group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "link/udp.h"
#include "loop/loop.h"
#include "port/ports.h"

static struct port *find_group(struct loop *l, const union ibv_gid *gid, int netif)
{
	for (uint32_t i = 0; i < l->ports; i++)
		if (l->port[i]->netif == netif && !memcmp(&l->port[i]->link->gid, gid, sizeof(*gid)))
			return l->port[i];
	return NULL;
}

static int find_member(const struct port *port, uint32_t qpn)
{
	for (uint32_t i = 0; i < port->members; i++)
		if (port->member[i] == qpn)
			return (int)i;
	return -1;
}

static bool limits_allow(const struct loop *l, const struct port *port)
{
	uint32_t groups = 0, members = 0;

	for (uint32_t i = 0; i < l->ports; i++) {
		groups += l->port[i]->netif != 0;
		members += l->port[i]->members;
	}
	return members < HCA_MAX_GROUP_MEMBERS && (port ? port->members < HCA_MAX_GROUP_QPS : groups < HCA_MAX_GROUPS);
}

static int open_group(struct loop *l, const union ibv_gid *gid, int netif, struct port **made)
{
	struct port *port = calloc(1, sizeof(*port));
	int err;

	if (!port)
		return -ENOMEM;
	port->loop = l;
	port->netif = netif;
	err = link_udp_join(gid, netif, &port->link);
	if (err) {
		free(port);
		return err;
	}
	err = port_start(l, port);
	if (!err)
		*made = port;
	return err;
}

static int add_member(struct loop *l, struct port *port, uint32_t qpn)
{
	uint32_t *more;

	lock_take(&l->receive);
	more = realloc(port->member, (port->members + 1) * sizeof(*more));
	if (more) {
		port->member = more;
		more[port->members++] = qpn;
	}
	lock_drop(&l->receive);
	return more ? 0 : -ENOMEM;
}

static void remove_member(struct loop *l, struct port *port, uint32_t at)
{
	lock_take(&l->receive);
	port->member[at] = port->member[--port->members];
	lock_drop(&l->receive);
	if (!port->members)
		port_stop(l, port);
}

int loop_join(uint32_t qpn, const union ibv_gid *group, int netif)
{
	struct loop *l = loop_hold();
	struct port *port = l ? find_group(l, group, netif) : NULL;
	int err = l ? 0 : -ENODEV; /* in a child, with a context of its parent */

	if (port && find_member(port, qpn) >= 0)
		err = -EEXIST;
	else if (l && !limits_allow(l, port))
		err = -ENOMEM;
	if (!err && !port)
		err = open_group(l, group, netif, &port);
	if (!err) {
		err = add_member(l, port, qpn);
		if (err && !port->members)
			port_stop(l, port);
	}
	loop_release();
	return err;
}

int loop_leave(uint32_t qpn, const union ibv_gid *group, int netif)
{
	struct loop *l = loop_hold();
	struct port *port = l ? find_group(l, group, netif) : NULL;
	int at = port ? find_member(port, qpn) : -1;

	if (at >= 0)
		remove_member(l, port, (uint32_t)at);
	loop_release();
	return at >= 0 ? 0 : -EINVAL;
}

void loop_leave_all(uint32_t qpn)
{
	struct loop *l = loop_hold();

	for (uint32_t i = l ? l->ports : 0; i-- > 0;) {
		int at = find_member(l->port[i], qpn);

		if (at >= 0)
			remove_member(l, l->port[i], (uint32_t)at);
	}
	loop_release();
}
