/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups: each has a port of its own. */
#ifndef UROCE_PORT_GROUP_H
#define UROCE_PORT_GROUP_H

#include "object/qp.h"

/* loop_join(): the QP gets a copy of each packet to a multicast group on an interface; loop_leave(): no longer.
 * IPv4 groups are ::ffff:a.b.c.d. 0 or -errno: EEXIST (the QP is in the group already), EINVAL (it is not), ENOMEM
 * (no memory, or a limit of hca.h), or an error of the kernel. */
int loop_join(uint32_t qpn, const union ibv_gid *group, int netif);
int loop_leave(uint32_t qpn, const union ibv_gid *group, int netif);
void loop_leave_all(uint32_t qpn);

#endif
