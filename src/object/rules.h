/* SPDX-License-Identifier: BSD-2-Clause */
/* Steering rules: they select the raw packet queue pair of an Ethernet frame. A frame is read once into the structs of
 * the verbs API, so a rule is only values and masks to compare. Pure: no state, no lock. */
#ifndef UROCE_RULES_H
#define UROCE_RULES_H

#include <infiniband/verbs.h>

#include "base/base.h"
#include "base/list.h"
#include "base/lock.h"

struct qp;

enum flow_layer {
	FLOW_ETH = 1 << 0,
	FLOW_IPV4 = 1 << 1,
	FLOW_IPV6 = 1 << 2,
	FLOW_TCP = 1 << 3,
	FLOW_UDP = 1 << 4,
};

/* The header fields of a frame, in the format of filters: network byte order. */
struct frame_key {
	uint32_t layers; /* enum flow_layer: those present */
	struct ibv_flow_eth_filter eth;
	struct ibv_flow_ipv4_ext_filter ipv4;
	struct ibv_flow_ipv6_filter ipv6;
	struct ibv_flow_tcp_udp_filter ports;
};

/* Reads the layers that the frame has; a truncated frame has fewer. At most one VLAN tag, no IPv6 extension headers; a
 * later fragment has no ports. */
void frame_read(struct frame_key *key, const uint8_t *frame, size_t length);

static inline bool frame_is_multicast(const struct frame_key *key)
{
	return key->eth.dst_mac[0] & 1;
}

#define FLOW_FILTER_BYTES 48
#define FLOW_SPECS	  8

struct flow_spec {
	uint32_t layer;
	uint16_t offset, size; /* in struct frame_key */
	uint8_t value[FLOW_FILTER_BYTES], mask[FLOW_FILTER_BYTES];
};

struct flow_rule {
	struct list link;   /* link of port/raw.c, under its lock, as are the counts */
	struct qp *qp;	    /* QP that receives matching frames */
	uint8_t type;	    /* enum ibv_flow_attr_type */
	uint16_t priority;  /* priority; 0 is matched first */
	bool drops, shares; /* drops: the frame is dropped; shares: later rules get it too */
	uint32_t tag;
	uint32_t specs;
	struct flow_spec spec[FLOW_SPECS];
	struct flow_counters *counters; /* counters; NULL: none */
	bool starves; /* a frame has waited for a receive in vain, and none was taken since: guarded by raw_lock */
};

/* Counters of ibv_create_counters(3): verbs/counters.c. Rules count in them. */
struct flow_counters {
	struct ibv_counters base;	 /* the application's object: first */
	_Atomic uint64_t packets, bytes; /* counts. Relaxed */
	_Atomic uint32_t users;		 /* number of rules */
	struct lock lock;
	uint32_t points GUARDED_BY(&lock); /* number of point[] */
	struct {
		uint32_t index;
		bool bytes;
	} point[8] GUARDED_BY(&lock);
};

/* Makes a rule from the attributes of ibv_create_flow(3). 0, EINVAL (malformed) or EOPNOTSUPP (unknown spec or
 * flag). */
int flow_parse(struct flow_rule *rule, const struct ibv_flow_attr *attr);
bool flow_matches(const struct flow_rule *rule, const struct frame_key *key);

#endif
