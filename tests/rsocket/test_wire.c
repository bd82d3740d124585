/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes that rsockets exchange are those of rdma-core's protocol (librdmacm/docs/rsocket), one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "rsocket/wire.h"

static const uint8_t offer[] = {
	1,    2,    0x01, 0x80, 0,    0,    0,	  128,	/* version, flags, credits, reserved, iomaps */
	0,    0,    0x7f, 0x11, 0x22, 0x33, 0x44, 0x55, /* the targets' address ... */
	0xa1, 0xa2, 0xa3, 0xa4, 0,    0,    0,	  2,	/* ... key, and number */
	0,    0,    0x7f, 0x66, 0x77, 0x88, 0x99, 0xaa, /* the first buffer's */
	0xb1, 0xb2, 0xb3, 0xb4, 0,    1,    0,	  0,
};

static void an_offer_stands_as_documented(void **state)
{
	const struct rs_connect written = {
		.version = RS_VERSION,
		.flags = RS_FLAG_IOMAP,
		.credits = to_be16(384),
		.iomap_scale = rs_scale(128),
		.targets = {to_be64(0x7f1122334455), to_be32(0xa1a2a3a4), to_be32(2)},
		.buffer = {to_be64(0x7f66778899aa), to_be32(0xb1b2b3b4), to_be32(65536)},
	};
	struct rs_peer p;

	assert_int_equal(sizeof(offer), sizeof(written));
	assert_memory_equal(&written, offer, sizeof(offer));
	assert_int_equal(rs_read_connect(&p, offer, sizeof(offer)), 0);
	assert_int_equal(p.targets.address, 0x7f1122334455);
	assert_int_equal(p.targets.key, 0xa1a2a3a4);
	assert_int_equal(p.targets.length, 2);
	assert_int_equal(p.buffer.address, 0x7f66778899aa);
	assert_int_equal(p.buffer.key, 0xb1b2b3b4);
	assert_int_equal(p.buffer.length, 65536);
	assert_int_equal(p.credits, 384);
	assert_int_equal(p.iomaps, 128);
	assert_false(p.big_endian);
}

/* rows of {byte, what is there, result} */
static void other_offers_are_refused(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
		int result;
	} rows[] = {{0, 0, -EPROTO}, {0, 2, -EPROTO}, {23, 0, -EPROTO}, {1, 3, 0}, {1, 0, 0}, {39, 7, 0}};
	uint8_t bytes[sizeof(offer)];
	struct rs_peer p;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		memcpy(bytes, offer, sizeof(bytes));
		bytes[rows[i].at] = rows[i].value;
		assert_int_equal(rs_read_connect(&p, bytes, sizeof(bytes)), rows[i].result);
		if (rows[i].at != 1)
			continue;
		assert_int_equal(p.big_endian, rows[i].value & 1);
		assert_int_equal(p.iomaps, rows[i].value & 2 ? 128 : 0);
	}
	for (size_t n = 0; n < sizeof(offer); n++)
		assert_int_equal(rs_read_connect(&p, offer, n), -EPROTO);
}

/* rows of {what is said, the immediate} */
static void immediates_say_what_a_message_is(void **state)
{
	static const struct {
		enum rs_op op;
		uint32_t value, message;
	} rows[] = {{RS_OP_DATA, 5000, 0x00001388},
		    {RS_OP_DATA, RS_VALUE_MAX, 0x1fffffff},
		    {RS_OP_CREDIT, 384, 0x80000180},
		    {RS_OP_IOMAP, 3, 0xc0000003},
		    {RS_OP_CONTROL, RS_DISCONNECT, 0xe0000000},
		    {RS_OP_CONTROL, RS_SHUTDOWN, 0xe0000002}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(rs_message(rows[i].op, rows[i].value), rows[i].message);
}

/* One byte for sizes up to 32512: exact to 128, then in steps of 256. */
static void sizes_are_scaled(void **state)
{
	static const struct {
		uint32_t size;
		uint8_t scale;
		uint32_t back;
	} rows[] = {{0, 0, 0}, {1, 1, 1}, {128, 128, 128}, {256, 129, 256}, {511, 129, 256}, {32512, 255, 32512}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(rs_scale(rows[i].size), rows[i].scale);
		assert_int_equal(rs_unscale(rows[i].scale), rows[i].back);
	}
}

static void headers_of_datagrams_stand_as_documented(void **state)
{
	static const uint8_t by_udp[] = {0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 0, 0x12, 0x34, 10, 0, 0, 9, 'd'};
	static const uint8_t by_ud[] = {4, 8, 0x12, 0x67, 10, 0, 0, 9, 'd'};
	struct rs_udp_header u;
	struct rs_header h;

	assert_true(rs_read_udp_header(&u, by_udp, sizeof(by_udp)));
	assert_int_equal(u.op, RS_OP_DATA);
	assert_int_equal(u.length, 16);
	assert_int_equal(from_be32(u.qpn), 0x1234);
	assert_memory_equal(u.address, by_udp + 12, 4);
	assert_true(rs_read_header(&h, by_ud, sizeof(by_ud)));
	assert_int_equal(h.length, 8);
	assert_int_equal(from_be16(h.port), 4711);
	assert_memory_equal(h.v4, by_ud + 4, 4);
	for (size_t n = 0; n < 16; n++)
		assert_false(rs_read_udp_header(&u, by_udp, n));
	for (size_t n = 0; n < 8; n++)
		assert_false(rs_read_header(&h, by_ud, n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_offer_stands_as_documented),
		cmocka_unit_test(other_offers_are_refused),
		cmocka_unit_test(immediates_say_what_a_message_is),
		cmocka_unit_test(sizes_are_scaled),
		cmocka_unit_test(headers_of_datagrams_stand_as_documented),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
