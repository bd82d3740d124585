/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups: each group has a port. Any thread may call. */
#ifndef UROCE_PORT_GROUP_H
#define UROCE_PORT_GROUP_H

#include "object/qp.h"

/* Attaches a QP to a multicast group on an interface: the QP gets a copy of each packet to the group. IPv4 groups are
 * ::ffff:a.b.c.d. 0 or -errno: EEXIST (the QP is in the group already), ENOMEM (no memory, or a limit of hca.h), ENODEV
 * (a context of the parent, after fork), or an error of the kernel. */
int loop_join(uint32_t qpn, const union ibv_gid *group, int netif);
/* Undoes loop_join(). 0, or -EINVAL: the QP is not in the group. loop_leave_all(): for all groups of the QP. */
int loop_leave(uint32_t qpn, const union ibv_gid *group, int netif);
void loop_leave_all(uint32_t qpn);

#endif
