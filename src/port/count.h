/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that this process has sent and received by UDP through the addresses of an interface since the process began.
 * Closed ports are included, shared memory between local peers is not. Any thread may call. */
#ifndef UROCE_PORT_COUNT_H
#define UROCE_PORT_COUNT_H

#include <infiniband/verbs.h>

struct port;

struct count {
	uint64_t tx_packets, tx_bytes, tx_refused; /* bytes: from the BTH to the ICRC */
	uint64_t rx_packets, rx_bytes, rx_icrc, rx_errors;
};

/* The sum over all ports of the interface `netif` and of its addresses gid[0..gids-1]. */
struct count loop_count(int netif, const union ibv_gid *gid, uint32_t gids);

/* Adds the counts of a port that is about to be closed. Between loop_hold() and loop_release(). */
void count_keep(const struct port *port);

#endif
