/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/grh.h"

#include <assert.h>
#include <string.h>

#include "base/address.h"
#include "base/be.h"

#define HOP_LIMIT     64
#define PROTOCOL_UDP  17
#define UDP_HEADER    8
#define DONT_FRAGMENT 0x4000

struct ipv4_header {
	uint8_t version_length, traffic_class;
	be16 total_length, identification, fragment;
	uint8_t hop_limit, protocol;
	uint8_t checksum[2];
	uint8_t from[4], to[4];
};
static_assert(sizeof(struct ipv4_header) == 20, "RFC 791");

struct ipv6_header {
	be32 version_class_flow;
	be16 payload_length;
	uint8_t protocol, hop_limit;
	uint8_t from[16], to[16];
};
static_assert(sizeof(struct ipv6_header) == GRH_BYTES, "RFC 8200; IBTA 8.3");

/* Sets the checksum (RFC 1071). Words are summed in memory order, so the sum is stored without a swap. */
static void put_checksum(struct ipv4_header *h)
{
	uint16_t word[sizeof(*h) / 2];
	uint32_t sum = 0;

	memcpy(word, h, sizeof(*h));
	for (size_t i = 0; i < sizeof(*h) / 2; i++)
		sum += word[i];
	sum = (sum & 0xffff) + (sum >> 16);
	word[0] = ~(uint16_t)(sum + (sum >> 16));
	memcpy(h->checksum, word, sizeof(h->checksum));
}

static void encode_ipv4(const struct packet *p, const uint8_t *from, uint8_t *out)
{
	struct ipv4_header h = {
		.version_length = 0x45,
		.traffic_class = p->traffic_class,
		.total_length = to_be16(sizeof(h) + UDP_HEADER + packet_bytes(p)),
		.fragment = to_be16(DONT_FRAGMENT),
		.hop_limit = HOP_LIMIT,
		.protocol = PROTOCOL_UDP,
	};

	memcpy(h.from, from + 12, sizeof(h.from));
	memcpy(h.to, p->to + 12, sizeof(h.to));
	put_checksum(&h);
	memset(out, 0, GRH_BYTES - sizeof(h));
	memcpy(out + GRH_BYTES - sizeof(h), &h, sizeof(h));
}

static void encode_ipv6(const struct packet *p, const uint8_t *from, uint8_t *out)
{
	struct ipv6_header h = {
		.version_class_flow = to_be32(6u << 28 | (uint32_t)p->traffic_class << 20),
		.payload_length = to_be16(UDP_HEADER + packet_bytes(p)),
		.protocol = PROTOCOL_UDP,
		.hop_limit = HOP_LIMIT,
	};

	memcpy(h.from, from, sizeof(h.from));
	memcpy(h.to, p->to, sizeof(h.to));
	memcpy(out, &h, sizeof(h));
}

enum grh_kind grh_kind(const struct packet *p)
{
	return gid_is_ipv4(p->to) ? GRH_IPV4 : GRH_IPV6;
}

void grh_encode(const struct packet *p, const uint8_t from[16], uint8_t out[GRH_BYTES])
{
	if (grh_kind(p) == GRH_IPV4)
		encode_ipv4(p, from, out);
	else
		encode_ipv6(p, from, out);
}
