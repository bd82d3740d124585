/* A packet as it stands in a ring: header values, and behind them the payload. Its words are in the order and the size of
 * this machine, as both ends are on it.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_RECORD_H
#define UROCE_RECORD_H

#include "link/link.h"

/* What every packet has. The first word is the ring's. */
struct record {
	uint32_t bytes;	 /* of all of it: ring_publish() writes this */
	uint32_t length; /* of the payload */
	uint8_t opcode, flags;
	uint16_t pkey;
	uint32_t qpn, psn;
	uint32_t word;	/* immediate data, the key to invalidate, or syndrome and MSN */
	uint64_t value; /* address, or what an atomic found */
};
static_assert(sizeof(struct record) == 32, "half a cache line");

/* What some have besides, behind it. */
struct record_request {
	uint32_t rkey, dma_length;
	uint64_t compare, swap_add;
	uint32_t srqn, zero;
};
static_assert(sizeof(struct record_request) == 32, "a record's header is a cache line at most");

struct record_datagram {
	uint32_t qkey, src_qpn;
	union ibv_gid from, to;
	uint8_t traffic_class, zero[23];
};

/* No record is larger than its payload by more. */
#define RECORD_OVERHEAD 160u

/* What record_put() will need, filled up to whole units of a ring. */
uint32_t record_bytes(const struct packet *p);

/* Writes the packet, but for the first word. `from`: the address it leaves from. */
void record_put(void *at, const struct link_tx *tx, const union ibv_gid *from);

/* A record of that many bytes -> values; its payload stays where it is. *from is left alone unless the record says who
 * sent it (datagrams do). 0, or -EBADMSG if it cannot be a record. */
int record_get(const void *at, uint32_t bytes, struct packet *p, const union ibv_gid **from);

#endif
