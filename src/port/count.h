/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts of what this process has sent and received by UDP through the addresses of an interface, since it began;
 * ports that have been closed are included. Shared memory between local peers is not. Any thread may call. */
#ifndef UROCE_PORT_COUNT_H
#define UROCE_PORT_COUNT_H

#include <infiniband/verbs.h>

struct port;

struct count {
	uint64_t tx_packets, tx_bytes, tx_refused; /* bytes: from the BTH to the ICRC */
	uint64_t rx_packets, rx_bytes, rx_icrc, rx_errors;
};

/* `gid`: the `gids` addresses of the interface. */
struct count loop_count(int netif, const union ibv_gid *gid, uint32_t gids);

/* For loop.c, between loop_hold() and loop_release(): a port is going to be closed; adds its counts. */
void count_keep(const struct port *port);

#endif
