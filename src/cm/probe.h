/* SPDX-License-Identifier: BSD-2-Clause */
/* Probes show why a request gets no answer. If a host has no socket on the RoCE port, ICMP errors are not reported
 * on a socket that is bound and sends to many hosts. A socket with IP_RECVERR is told that the port is closed, or
 * (by this kernel or a router) that the host is unreachable. So a packet that any receiver ignores is sent from such
 * a socket.
 *
 * If a firewall drops the probe, there is no result. */
#ifndef UROCE_PROBE_H
#define UROCE_PROBE_H

#include "cm/cm.h"

/* Sends a probe for the connection with this id. Never blocks. */
void probe_send(const struct cm_address *address, uint32_t id) REQUIRES(cm.lock);
/* Calls absent() for each error received: id of the connection, and -ECONNREFUSED or the error of an unreachable
 * host. */
void probe_collect(void (*absent)(uint32_t id, int err)) REQUIRES(cm.lock);
/* Call in the child after fork(). */
void probe_forget(void) REQUIRES(cm.lock);

#endif
