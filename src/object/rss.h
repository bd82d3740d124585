/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive-side scaling: selects a queue for a frame by the Toeplitz hash of the fields that identify its flow. Pure: no
 * lock. */
#ifndef UROCE_RSS_H
#define UROCE_RSS_H

#include "object/rules.h"

enum {
	RSS_KEY = 40,	  /* bytes of a key */
	RSS_TABLE = 1024, /* entries at most */
	RSS_FIELDS = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6 |
		     IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP |
		     IBV_RX_HASH_DST_PORT_UDP,
};

/* The hash parameters of a queue pair that has no queues itself. Constant; the table belongs to its owner. */
struct rss {
	uint8_t key[RSS_KEY];
	uint64_t fields; /* enum ibv_rx_hash_fields */
	uint32_t mask;	 /* number of table entries, less 1 */
	struct qp *const *table;
};

/* The hash of a frame; 0 without any of these fields. */
uint32_t rss_hash(const struct rss *rss, const struct frame_key *key);

#endif
