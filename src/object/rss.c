/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/rss.h"

#include <string.h>

/* The hash of `input`, at most 36 bytes: the XOR, over all bits of the input that are set, of the 32 bits of the key
 * that begin at the same position. */
static uint32_t toeplitz(const uint8_t key[RSS_KEY], const uint8_t *input, size_t length)
{
	uint32_t window = (uint32_t)key[0] << 24 | key[1] << 16 | key[2] << 8 | key[3], hash = 0;

	for (size_t i = 0; i < length; i++) {
		for (int bit = 7; bit >= 0; bit--) {
			if (input[i] >> bit & 1)
				hash ^= window;
			window = window << 1 | (key[i + 4] >> bit & 1);
		}
	}
	return hash;
}

uint32_t rss_hash(const struct rss *rss, const struct frame_key *key)
{
	/* in the order of drivers: addresses, then ports, source first */
	const struct {
		uint64_t field;
		uint32_t layer;
		const void *at;
		size_t size;
	} parts[] = {
		{IBV_RX_HASH_SRC_IPV4, FLOW_IPV4, &key->ipv4.src_ip, 4},
		{IBV_RX_HASH_SRC_IPV6, FLOW_IPV6, key->ipv6.src_ip, 16},
		{IBV_RX_HASH_DST_IPV4, FLOW_IPV4, &key->ipv4.dst_ip, 4},
		{IBV_RX_HASH_DST_IPV6, FLOW_IPV6, key->ipv6.dst_ip, 16},
		{IBV_RX_HASH_SRC_PORT_TCP, FLOW_TCP, &key->ports.src_port, 2},
		{IBV_RX_HASH_SRC_PORT_UDP, FLOW_UDP, &key->ports.src_port, 2},
		{IBV_RX_HASH_DST_PORT_TCP, FLOW_TCP, &key->ports.dst_port, 2},
		{IBV_RX_HASH_DST_PORT_UDP, FLOW_UDP, &key->ports.dst_port, 2},
	};
	uint8_t input[RSS_KEY - 4];
	size_t length = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!(rss->fields & parts[i].field) || !(key->layers & parts[i].layer))
			continue;
		memcpy(input + length, parts[i].at, parts[i].size);
		length += parts[i].size;
	}
	return toeplitz(rss->key, input, length);
}
