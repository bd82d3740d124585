/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes: the parser stays within them, and what it accepts encodes to the same header bytes, reserved
 * bits apart. Seeds: corpus/packet, made of the captures by packet-seeds.py. */
#include <stdlib.h>
#include <string.h>

#include "require.h"
#include "wire/headers.h"
#include "wire/icrc.h"
#include "wire/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reserved bits, which the parser ignores and the encoder leaves 0. */
static void clear_reserved(uint8_t *header, uint32_t flags)
{
	struct bth *bth = (void *)header;
	uint8_t *first = header + sizeof(*bth);

	bth->qpn = to_be32(from_be32(bth->qpn) & (BTH_FECN | BTH_BECN | QPN_MASK));
	bth->psn = to_be32(from_be32(bth->psn) & (BTH_ACK_REQUEST | PSN_MASK));
	if (flags & HAS_DETH)
		first[offsetof(struct deth, src_qpn)] = 0;
	if (flags & HAS_XRCETH)
		first[offsetof(struct xrceth, srqn)] = 0;
}

static void check_encoding(const struct packet *p, const uint8_t *data, size_t size)
{
	const struct opcode_info *info = &opcode_info[p->opcode];
	uint8_t expected[PACKET_HEADERS], out[PACKET_HEADERS];
	size_t n = packet_encode(p, out);

	require(n == info->header_bytes && n <= PACKET_HEADERS);
	require(p->payload == data + n && packet_bytes(p) == size + ICRC_BYTES);
	memcpy(expected, data, n);
	clear_reserved(expected, info->flags);
	require(!memcmp(out, expected, n));
}

/* An identification that icrc_check() finds is one with which the ICRC is right. */
static void check_icrc(const uint8_t *data, size_t size)
{
	static const uint8_t ipv4[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1}, ipv6[16] = {0x20, 0x01, [15] = 1};
	struct icrc_flow flow;
	int identification;

	icrc_flow_init(&flow, ipv4, ipv4, size, ROCE_PORT);
	identification = icrc_check(&flow, data, size, 0);
	if (identification >= 0)
		require(icrc_check(&flow, data, size, identification) == identification);
	icrc_flow_init(&flow, ipv6, ipv6, size, ROCE_PORT);
	require(icrc_check(&flow, data, size, 0) <= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct packet p;

	if (!packet_parse(&p, data, size))
		check_encoding(&p, data, size);
	check_icrc(data, size);
	return 0;
}
