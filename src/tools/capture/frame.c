/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/capture/frame.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <string.h>

#include "base/address.h"
#include "wire/icrc.h"
#include "wire/packet_frame.h"

/* MAC address for a GID: RFC 1112 and RFC 2464 for multicast; else locally administered. */
static void put_mac(uint8_t to[6], const uint8_t gid[16])
{
	memcpy(to, (uint8_t[]){0x02, 0}, 2);
	memcpy(to + 2, gid + 12, 4);
	if (gid_is_ipv4(gid) && gid[12] >> 4 == 0xe) {
		memcpy(to, (uint8_t[]){0x01, 0, 0x5e}, 3);
		to[3] &= 0x7f;
	} else if (gid[0] == 0xff) {
		memcpy(to, (uint8_t[]){0x33, 0x33}, 2);
	}
}

/* UDP source port for a pair of addresses, the same both ways, in the range that RoCEv2 adapters use. */
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
	struct packet_frame head = {
		.port = source_port(path),
		.traffic_class = path->traffic_class,
		.hops = path->hop_limit ?: 64,
		.flow_label = path->flow_label,
		.bytes = roce,
	};
	struct icrc_flow flow;
	uint32_t icrc;
	uint8_t *at = f->bytes, *bth;

	memcpy(head.from.raw, path->from, sizeof(head.from));
	memcpy(head.to.raw, path->to, sizeof(head.to));
	put_mac(at, path->to);
	put_mac(at + ETH_ALEN, path->from);
	memcpy(at + 2 * ETH_ALEN, &(uint16_t){htons(gid_is_ipv4(path->to) ? ETH_P_IP : ETH_P_IPV6)}, 2);
	bth = at += packet_frame_put(&head, FRAME_SUM_NONE, at); /* without UDP checksum: IBTA annex A17 */
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
