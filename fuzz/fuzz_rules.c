/* SPDX-License-Identifier: BSD-2-Clause */
/* Any frame: reading it stays within it, finds no more layers than it has bytes for, and a rule made of what was found
 * matches it. Seeds: corpus/rules, made by rules-seeds.py. */
#include <stdlib.h>
#include <string.h>

#include "object/rss.h"
#include "object/rules.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_layers(const struct frame_key *key, size_t size)
{
	size_t least = key->layers & FLOW_ETH ? 14 : 0;

	least += key->layers & FLOW_IPV4 ? 20 : key->layers & FLOW_IPV6 ? 40 : 0;
	least += key->layers & (FLOW_TCP | FLOW_UDP) ? 4 : 0;
	require(size >= least);
	require(!(key->layers & FLOW_IPV4) || !(key->layers & FLOW_IPV6));
	require(!(key->layers & FLOW_TCP) || !(key->layers & FLOW_UDP));
	require(!(key->layers & (FLOW_TCP | FLOW_UDP)) || key->layers & (FLOW_IPV4 | FLOW_IPV6));
}

/* As an application would describe it, each layer by its own spec. */
static void check_rule(const struct frame_key *key)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_ipv4_ext ip;
		struct ibv_flow_spec_tcp_udp ports;
	} __attribute__((packed, aligned(8))) f = {
		.attr = {.size = sizeof(f), .port = 1, .num_of_specs = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(f.eth), .val = key->eth},
		.ip = {.type = IBV_FLOW_SPEC_IPV4_EXT, .size = sizeof(f.ip), .val = key->ipv4},
		.ports = {.type = key->layers & FLOW_TCP ? IBV_FLOW_SPEC_TCP : IBV_FLOW_SPEC_UDP,
			  .size = sizeof(f.ports),
			  .val = key->ports},
	};
	struct flow_rule rule = {0};

	memset(&f.eth.mask, 0xff, sizeof(f.eth.mask));
	memset(&f.ip.mask, 0xff, sizeof(f.ip.mask));
	memset(&f.ports.mask, 0xff, sizeof(f.ports.mask));
	if (key->layers & FLOW_IPV4)
		f.attr.num_of_specs += 1 + !!(key->layers & (FLOW_TCP | FLOW_UDP));
	require(flow_parse(&rule, &f.attr) == 0);
	require(flow_matches(&rule, key) == !!(key->layers & FLOW_ETH));
	rule.spec[0].value[0] ^= 1;
	require(!flow_matches(&rule, key));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct rss rss = {.fields = RSS_FIELDS};
	uint8_t *frame = malloc(size ? size : 1); /* of just that size, for the sanitizer */
	struct frame_key key;

	memcpy(frame, data, size);
	frame_read(&key, frame, size);
	check_layers(&key, size);
	check_rule(&key);
	require(rss_hash(&rss, &key) == 0); /* the key is 0 */
	free(frame);
	return 0;
}
