/* SPDX-License-Identifier: BSD-2-Clause */
/* A network that loses, duplicates, delays, reorders and damages packets at random. A packet is bytes here, ICRC
 * included: the ICRC must reveal the damage. Time is virtual. */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include "dice.h"
#include "engine/engine.h"
#include "heap.h"

enum {
	NETWORK_NODES = 4,
	NETWORK_MEMORY = 16384, /* for `fair` */
};

struct quality {
	double loss, duplicate, corrupt, reorder;
	uint64_t latency, jitter; /* ns */
	uint64_t detour;	  /* ns: at most so much later comes a packet that is overtaken */
	uint64_t ns_per_kib;	  /* the speed of each node's cable */
	uint32_t queue, mark;	  /* packets that wait for the cable: more are dropped, marked (ECN) */
	bool in_order;		  /* jitter overtakes nothing */
	bool fair;		  /* no packet of one kind and PSN is harmed more than twice */
	bool ipv4;
	bool uroce; /* each end sees that the other is a uroce */
};

struct network {
	struct quality quality;
	struct dice dice;
	union ibv_gid gid[NETWORK_NODES];
	bool dead[NETWORK_NODES];	       /* nothing comes from there or arrives there any more */
	uint64_t stopped_until[NETWORK_NODES]; /* what arrives there before has to wait */
	uint64_t cable_free[NETWORK_NODES], last_arrival[NETWORK_NODES][NETWORK_NODES];
	struct due_heap flights;
	uint64_t order; /* of packets with equal arrival times */
	uint8_t harmed[NETWORK_MEMORY];
	uint64_t sent, lost, damaged, doubled, digest;
};

void network_init(struct network *n, const struct quality *q, uint64_t seed);
void network_fini(struct network *n);

/* tx points into turn; `mtu` is what the packet will say of the way it came. */
void network_send(struct network *n, uint32_t from, const struct tx_batch *batch, const struct tx *tx, uint32_t mtu,
		  uint64_t now);

/* When the next packet arrives; NEVER if none is on the way. */
uint64_t network_next(struct network *n);

/* The packet that arrives at network_next(): to which node, from which address; NULL if it was damaged (or
 * its node is dead). Its payload lives until the next call. */
const struct packet *network_arrive(struct network *n, uint32_t *to, union ibv_gid *from);

#endif
