/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/frame.h"

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <string.h>

#include "wire/icrc.h"

#define ETHERTYPE_V4 0x0800
#define ETHERTYPE_V6 0x86dd

static bool is_v4(const uint8_t gid[16])
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid, prefix, sizeof(prefix));
}

/* RFC 1112 and RFC 2464 for multicast; else a locally administered address. */
static void put_mac(uint8_t to[6], const uint8_t gid[16])
{
	memcpy(to, (uint8_t[]){0x02, 0}, 2);
	memcpy(to + 2, gid + 12, 4);
	if (is_v4(gid) && gid[12] >> 4 == 0xe) {
		memcpy(to, (uint8_t[]){0x01, 0, 0x5e}, 3);
		to[3] &= 0x7f;
	} else if (gid[0] == 0xff) {
		memcpy(to, (uint8_t[]){0x33, 0x33}, 2);
	}
}

static uint16_t ip_checksum(const void *header, size_t bytes)
{
	const uint8_t *at = header;
	uint32_t sum = 0;

	for (size_t i = 0; i < bytes; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t) ~((sum & 0xffff) + (sum >> 16)));
}

static uint8_t *put_ipv4(uint8_t *to, const struct capture_path *path, uint32_t udp)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tos = path->traffic_class,
		.tot_len = htons((uint16_t)(sizeof(ip) + udp)),
		.frag_off = htons(IP_DF),
		.ttl = path->hop_limit ?: 64,
		.protocol = IPPROTO_UDP,
	};

	memcpy(&ip.saddr, path->from + 12, 4);
	memcpy(&ip.daddr, path->to + 12, 4);
	ip.check = ip_checksum(&ip, sizeof(ip));
	memcpy(to, &ip, sizeof(ip));
	return to + sizeof(ip);
}

static uint8_t *put_ipv6(uint8_t *to, const struct capture_path *path, uint32_t udp)
{
	struct ip6_hdr ip = {
		.ip6_flow = htonl(6u << 28 | (uint32_t)path->traffic_class << 20 | (path->flow_label & 0xfffff)),
		.ip6_plen = htons((uint16_t)udp),
		.ip6_nxt = IPPROTO_UDP,
		.ip6_hlim = path->hop_limit ?: 64,
	};

	memcpy(&ip.ip6_src, path->from, 16);
	memcpy(&ip.ip6_dst, path->to, 16);
	memcpy(to, &ip, sizeof(ip));
	return to + sizeof(ip);
}

/* One for each pair of addresses, the same both ways, in the range that RoCEv2 adapters use. */
static uint16_t source_port(const struct capture_path *path)
{
	uint32_t sum = 0;

	for (int i = 0; i < 16; i++)
		sum += path->from[i] + path->to[i];
	return (uint16_t)(0xc000 | (sum & 0x3fff));
}

void frame_build(struct frame *f, const struct capture_path *path, const uint8_t *headers, uint32_t header_bytes,
		 const uint8_t *payload, uint32_t captured, uint32_t length)
{
	uint32_t pad = packet_pad(length), roce = header_bytes + length + pad + ICRC_BYTES;
	struct udphdr udp = {.source = htons(source_port(path)), .dest = htons(ROCE_PORT), .len = htons(8 + roce)};
	bool v4 = is_v4(path->from);
	struct icrc_flow flow;
	uint32_t icrc;
	uint8_t *at = f->bytes, *bth;

	put_mac(at, path->to);
	put_mac(at + 6, path->from);
	memcpy(at + 12, &(uint16_t){htons(v4 ? ETHERTYPE_V4 : ETHERTYPE_V6)}, 2);
	at = v4 ? put_ipv4(at + 14, path, 8 + roce) : put_ipv6(at + 14, path, 8 + roce);
	memcpy(at, &udp, sizeof(udp)); /* without a checksum: IBTA annex A17 */
	bth = at += sizeof(udp);
	memcpy(at, headers, header_bytes);
	memcpy(at + header_bytes, payload, captured);
	f->length = (uint32_t)(bth - f->bytes) + roce;
	f->captured = (uint32_t)(bth - f->bytes) + header_bytes + captured;
	if (captured < length)
		return;
	memset(at + header_bytes + length, 0, pad);
	icrc_flow_init(&flow, path->from, path->to, source_port(path), ROCE_PORT);
	icrc = icrc_start(&flow, 0, roce, bth, header_bytes + length + pad);
	icrc_put(bth + roce - ICRC_BYTES, icrc);
	f->captured = f->length;
}
