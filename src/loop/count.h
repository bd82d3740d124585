/* SPDX-License-Identifier: BSD-2-Clause */
/* What has gone through the addresses of an interface by UDP, in this process, since it began: also by ports that have
 * been closed. What local peers send each other through shared memory is not among it. Any thread may call. */
#ifndef UROCE_COUNT_H
#define UROCE_COUNT_H

#include <infiniband/verbs.h>

struct port;

struct count {
	uint64_t tx_packets, tx_bytes, tx_refused; /* bytes: from the BTH to the ICRC */
	uint64_t rx_packets, rx_bytes, rx_icrc, rx_errors;
};

/* `gid`: `gids` of the interface's addresses. */
struct count loop_count(int netif, const union ibv_gid *gid, uint32_t gids);

/* For loop.c, in loop_hold(): a port is about to be closed. */
void count_keep(const struct port *port);

#endif
