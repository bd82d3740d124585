/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets: values -> bytes -> values, known layouts, and what the parser refuses. */
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "wire/packet.h"

/* A packet with a different value in every field that its opcode has; zeros elsewhere, between fields too, so
 * that memory may be compared. */
static void fill(struct packet *p, uint8_t opcode)
{
	uint32_t flags = opcode_info[opcode].flags;

	memset(p, 0, sizeof(*p));
	p->opcode = opcode;
	p->solicited = true;
	p->ack_request = true;
	p->becn = true;
	p->pkey = 0x8123;
	p->dest_qpn = 0xabcdef;
	p->psn = psn(0xfedcba);

	if (flags & HAS_IMM)
		p->imm = htobe32(0x01020304);
	if (flags & HAS_IETH)
		p->inv_rkey = 0x11121314;
	if (flags & (HAS_RETH | HAS_ATOMICETH)) {
		p->va = 0x2122232425262728;
		p->rkey = 0x31323334;
	}
	if (flags & HAS_RETH)
		p->dma_length = 0x41424344;
	if (flags & HAS_ATOMICETH) {
		p->swap_add = 0x5152535455565758;
		p->compare = 0x6162636465666768;
	}
	if (flags & HAS_AETH) {
		p->syndrome = 0x71;
		p->msn = 0x727374;
	}
	if (flags & HAS_ATOMICACKETH)
		p->original = 0x8182838485868788;
	if (flags & HAS_DETH) {
		p->qkey = 0x91929394;
		p->src_qpn = 0xa1a2a3;
	}
	if (flags & HAS_XRCETH)
		p->srqn = 0xb1b2b3;
}

/* Encodes with zeros for payload and pad; returns the bytes from the BTH to before the ICRC. */
static size_t encode_all(const struct packet *p, uint8_t *out)
{
	size_t n = packet_encode(p, out), rest = p->length + packet_pad(p->length);

	memset(out + n, 0, rest);
	return n + rest;
}

/* In a buffer of exactly n bytes, so that the address sanitizer sees a byte read too many. */
static int parse_exact(struct packet *p, const uint8_t *bytes, size_t n)
{
	uint8_t *exact = malloc(n ?: 1);
	int result;

	memcpy(exact, bytes, n);
	result = packet_parse(p, exact, n);
	free(exact);
	return result;
}

static void every_opcode_comes_back_as_it_was_sent(void **state)
{
	uint8_t bytes[PACKET_HEADERS + 64];

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct opcode_info *info = &opcode_info[opcode];

		for (uint32_t length = 0; info->name && length <= (info->flags & HAS_PAYLOAD ? 9 : 0); length++) {
			struct packet sent, got;
			size_t n;

			fill(&sent, opcode);
			memset(&got, 0, sizeof(got));
			sent.length = length;
			n = encode_all(&sent, bytes);
			assert_int_equal(n + 4, packet_bytes(&sent));
			assert_int_equal(packet_parse(&got, bytes, n), 0);
			assert_ptr_equal(got.payload, bytes + info->header_bytes);
			got.payload = NULL;
			assert_memory_equal(&got, &sent, sizeof(got));
		}
	}
}

/* A packet that goes on like the last one is parsed, and encoded, as by itself; and if it differs, not so. */
static void the_next_packet_like_the_last(void **state)
{
	struct packet first, next, whole;
	uint8_t a[PACKET_HEADERS], b[PACKET_HEADERS], c[PACKET_HEADERS];

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		bool plain = opcode_info[opcode].header_bytes == 12;

		if (!opcode_info[opcode].name)
			continue;
		fill(&first, opcode);
		first.length &= ~3u;
		packet_encode(&first, a);
		for (unsigned bit = 0; bit < 12 * 8; bit++) {
			size_t n = packet_encode(&first, b) + (opcode_info[opcode].flags & HAS_PAYLOAD ? 4 : 0);
			bool may = bit >= 64 && plain; /* the PSN, with the request for an ACK */

			b[bit / 8] ^= 1 << bit % 8;
			if (packet_parse(&next, a, n))
				continue;
			assert_int_equal(packet_parse_next(&next, a, b), may);
			if (!may)
				continue;
			assert_int_equal(packet_parse(&whole, b, n), 0);
			assert_int_equal(next.psn.v, whole.psn.v);
			assert_int_equal(next.ack_request, whole.ack_request);
			assert_ptr_equal(next.payload, whole.payload);
			assert_int_equal(next.length, whole.length);
		}
		for (unsigned i = 0; plain && i < 8; i++) {
			next = first;
			next.psn = psn_add(first.psn, i);
			next.solicited = i & 1;
			next.ack_request = i & 2;
			assert_int_equal(packet_encode_like(&next, a, b), packet_encode(&next, c));
			assert_memory_equal(b, c, 12);
		}
	}
}

static void each_flag_has_its_own_bit(void **state)
{
	uint8_t bytes[PACKET_HEADERS];
	struct packet p = {.opcode = OP_SEND_ONLY};

	packet_encode(&p, bytes);
	assert_memory_equal(bytes, ((uint8_t[]){4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), 12);
	p = (struct packet){.opcode = OP_SEND_ONLY, .solicited = true, .fecn = true, .pkey = 0xffff, .length = 1};
	packet_encode(&p, bytes);
	assert_memory_equal(bytes, ((uint8_t[]){4, 0xb0, 0xff, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0}), 12);
	p = (struct packet){.opcode = OP_SEND_ONLY, .migrated = true, .becn = true, .ack_request = true, .length = 6};
	packet_encode(&p, bytes);
	assert_memory_equal(bytes, ((uint8_t[]){4, 0x60, 0, 0, 0x40, 0, 0, 0, 0x80, 0, 0, 0}), 12);
	p = (struct packet){.opcode = OP_SEND_ONLY, .dest_qpn = 0x010203, .psn = psn(0x040506), .length = 7};
	packet_encode(&p, bytes);
	assert_memory_equal(bytes, ((uint8_t[]){4, 0x10, 0, 0, 0, 1, 2, 3, 0, 4, 5, 6}), 12);
}

static void check_bytes(uint8_t opcode, const uint8_t *extended, size_t n)
{
	uint8_t bytes[PACKET_HEADERS];
	struct packet p;

	fill(&p, opcode);
	assert_int_equal(packet_encode(&p, bytes), 12 + n);
	assert_memory_equal(bytes + 12, extended, n);
}
#define CHECK_BYTES(opcode, ...) check_bytes(opcode, (uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}))

static void extended_headers_stand_in_the_order_of_the_specification(void **state)
{
	CHECK_BYTES(OP_WRITE_ONLY_IMM, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x41,
		    0x42, 0x43, 0x44, 1, 2, 3, 4);
	CHECK_BYTES(OP_COMPARE_SWAP, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x51, 0x52,
		    0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68);
	CHECK_BYTES(OP_ATOMIC_ACKNOWLEDGE, 0x71, 0x72, 0x73, 0x74, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88);
	CHECK_BYTES(OP_SEND_ONLY_INV, 0x11, 0x12, 0x13, 0x14);
	CHECK_BYTES(TRANSPORT_UD | OP_SEND_ONLY_IMM, 0x91, 0x92, 0x93, 0x94, 0, 0xa1, 0xa2, 0xa3, 1, 2, 3, 4);
	CHECK_BYTES(TRANSPORT_XRC | OP_SEND_ONLY_INV, 0, 0xb1, 0xb2, 0xb3, 0x11, 0x12, 0x13, 0x14);
	CHECK_BYTES(TRANSPORT_XRC | OP_WRITE_ONLY_IMM, 0, 0xb1, 0xb2, 0xb3, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27,
		    0x28, 0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44, 1, 2, 3, 4);
	CHECK_BYTES(TRANSPORT_XRC | OP_READ_RESPONSE_ONLY, 0x71, 0x72, 0x73, 0x74);
}

static void a_truncated_packet_is_refused(void **state)
{
	uint8_t bytes[PACKET_HEADERS + 8];
	struct packet p;

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct opcode_info *info = &opcode_info[opcode];
		struct packet sent;

		if (!info->name)
			continue;
		fill(&sent, opcode);
		sent.length = info->flags & HAS_PAYLOAD ? 5 : 0;
		for (size_t all = encode_all(&sent, bytes), n = 0; n < all; n++)
			/* what is left may only pass if the pad is still covered: here it is 3 of the last 4
			 */
			assert_int_equal(parse_exact(&p, bytes, n),
					 n >= info->header_bytes + 4u && n % 4 == 0 ? 0 : -EBADMSG);
	}
}

static void payload_is_in_whole_words(void **state)
{
	struct packet sent = {.opcode = OP_SEND_ONLY, .length = 16}, p;
	uint8_t bytes[PACKET_HEADERS + 16];
	size_t n = encode_all(&sent, bytes);

	for (size_t cut = 0; cut <= 16; cut++)
		assert_int_equal(parse_exact(&p, bytes, n - cut), cut % 4 ? -EBADMSG : 0);
}

static void other_transport_versions_are_refused(void **state)
{
	struct packet sent = {.opcode = OP_SEND_ONLY}, p;
	uint8_t bytes[PACKET_HEADERS];
	size_t n = encode_all(&sent, bytes);

	for (unsigned version = 0; version < 16; version++) {
		bytes[1] = version;
		assert_int_equal(parse_exact(&p, bytes, n), version ? -EBADMSG : 0);
	}
}

static void more_pad_than_payload_is_refused(void **state)
{
	struct packet sent = {.opcode = OP_SEND_ONLY, .length = 4}, p;
	uint8_t bytes[PACKET_HEADERS + 4];
	size_t n = encode_all(&sent, bytes);

	for (unsigned pad = 0; pad < 4; pad++) {
		bytes[1] = pad << 4;
		assert_int_equal(parse_exact(&p, bytes, n), 0);
		assert_int_equal(p.length, 4 - pad);
		assert_int_equal(parse_exact(&p, bytes, n - 4), pad ? -EBADMSG : 0);
	}
}

static void payload_where_the_opcode_has_none_is_refused(void **state)
{
	uint8_t bytes[PACKET_HEADERS + 8] = {};
	struct packet p;

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct opcode_info *info = &opcode_info[opcode];

		if (!info->name)
			continue;
		bytes[0] = opcode;
		assert_int_equal(parse_exact(&p, bytes, info->header_bytes), 0);
		assert_int_equal(parse_exact(&p, bytes, info->header_bytes + 8),
				 info->flags & HAS_PAYLOAD ? 0 : -EBADMSG);
	}
}

static void unknown_opcodes_are_refused_at_any_length(void **state)
{
	uint8_t bytes[PACKET_HEADERS + 8] = {};
	struct packet p;

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		bytes[0] = opcode;
		for (size_t n = 0; n <= sizeof(bytes) && !opcode_info[opcode].name; n++)
			assert_int_equal(parse_exact(&p, bytes, n), -EBADMSG);
	}
}

static void reserved_bits_are_ignored(void **state)
{
	uint8_t bytes[PACKET_HEADERS];
	struct packet sent, got;
	size_t n;

	fill(&sent, TRANSPORT_UD | OP_SEND_ONLY);
	memset(&got, 0, sizeof(got));
	n = encode_all(&sent, bytes);
	bytes[4] |= 0x3f;
	bytes[8] |= 0x7f;
	bytes[12 + 4] = 0xff;
	assert_int_equal(packet_parse(&got, bytes, n), 0);
	got.payload = NULL;
	assert_memory_equal(&got, &sent, sizeof(got));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_opcode_comes_back_as_it_was_sent),
		cmocka_unit_test(the_next_packet_like_the_last),
		cmocka_unit_test(each_flag_has_its_own_bit),
		cmocka_unit_test(extended_headers_stand_in_the_order_of_the_specification),
		cmocka_unit_test(a_truncated_packet_is_refused),
		cmocka_unit_test(payload_is_in_whole_words),
		cmocka_unit_test(other_transport_versions_are_refused),
		cmocka_unit_test(more_pad_than_payload_is_refused),
		cmocka_unit_test(payload_where_the_opcode_has_none_is_refused),
		cmocka_unit_test(unknown_opcodes_are_refused_at_any_length),
		cmocka_unit_test(reserved_bits_are_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
