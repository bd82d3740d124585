// SPDX-License-Identifier: BSD-2-Clause
// A packet comes out of a record as it went in, whatever its opcode; what cannot be a record is refused.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "link/record.h"
#include "link/ring.h"

static const union ibv_gid here = {.raw = "0123456789abcde"}, there = {.raw = "edcba9876543210"};

static struct packet packet_of(uint8_t opcode, uint32_t length)
{
	return (struct packet){.opcode = opcode,
			       .solicited = opcode & 1,
			       .ack_request = !(opcode & 1),
			       .becn = opcode == OPCODE_CNP,
			       .pkey = PKEY_DEFAULT,
			       .dest_qpn = 0xabcdef,
			       .psn = psn(0x123456),
			       .imm = 0x11223344,
			       .inv_rkey = 0x55667788,
			       .va = 0x1020304050607080,
			       .rkey = 0x99aabbcc,
			       .dma_length = 0x12345,
			       .swap_add = 0x1111222233334444,
			       .compare = 0x5555666677778888,
			       .syndrome = 0x1f,
			       .msn = 0xfedcba,
			       .original = 0x9999aaaabbbbcccc,
			       .qkey = 0x22222222,
			       .src_qpn = 0x333333,
			       .srqn = 0x444444,
			       .length = length};
}

static void expect_same(const struct packet *a, const struct packet *b)
{
	uint32_t flags = opcode_info[a->opcode].flags;

#define SAME(field) assert_int_equal(a->field, b->field)
#define SAME_IF(flag, field)         \
	do {                         \
		if (flags & (flag))  \
			SAME(field); \
	} while (0)
	SAME(opcode);
	SAME(solicited);
	SAME(ack_request);
	SAME(becn);
	SAME(migrated);
	SAME(pkey);
	SAME(dest_qpn);
	SAME(psn.v);
	SAME(length);
	SAME_IF(HAS_IMM, imm);
	SAME_IF(HAS_IETH, inv_rkey);
	SAME_IF(HAS_RETH | HAS_ATOMICETH, va);
	SAME_IF(HAS_RETH | HAS_ATOMICETH, rkey);
	SAME_IF(HAS_RETH, dma_length);
	SAME_IF(HAS_ATOMICETH, compare);
	SAME_IF(HAS_ATOMICETH, swap_add);
	SAME_IF(HAS_AETH, syndrome);
	SAME_IF(HAS_AETH, msn);
	SAME_IF(HAS_ATOMICACKETH, original);
	SAME_IF(HAS_DETH, qkey);
	SAME_IF(HAS_DETH, src_qpn);
	SAME_IF(HAS_XRCETH, srqn);
}

/* the fast path to write it. */
static void expect_same_straight(const char *record, const struct packet *p, const char *payload)
{
	_Alignas(CACHE_LINE) char memory[1024];

	memcpy(memory, record, sizeof(memory));
	memset(memory + sizeof(uint64_t) + sizeof(uint32_t), 0xee,
	       record_bytes(p)); /* behind what ring_publish() writes */
	memset(memory + offsetof(struct record, zero), 0, 1);
	memcpy(memory + record_header(opcode_info[p->opcode].flags), payload, p->length);
	record_put_fast(memory, p, 5, &here);
	assert_memory_equal(memory, record, record_bytes(p));
}

static void a_packet_of_every_kind_comes_out_as_it_went_in(void **state)
{
	_Alignas(CACHE_LINE) char memory[1024] = {0};
	char payload[300];

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (char)i;
	for (int i = 0; i < 512; i++) {
		bool migrated = i < 256; /* as in all packets that the fast path writes */
		int opcode = i % 256;
		const struct opcode_info *info = &opcode_info[opcode];
		uint32_t length = info->flags & HAS_PAYLOAD ? sizeof(payload) : 0;
		struct packet p, in = packet_of((uint8_t)opcode, length);
		struct iovec iov[2] = {{payload, 7}, {payload + 7, sizeof(payload) - 7}};
		struct link_tx tx = {.packet = &in,
				     .iov = iov,
				     .iovs = length ? 2 : 0,
				     .dgid = &there,
				     .sgid = &here,
				     .traffic_class = 5};
		const union ibv_gid *from = NULL;

		if (!info->name)
			continue;
		in.migrated = migrated;
		assert_true(ring_round(record_bytes(&in)) <= length + RECORD_OVERHEAD);
		record_put(memory, &tx);
		if (migrated &&
		    (opcode == OP_SEND_ONLY || opcode == OP_SEND_ONLY_IMM || opcode == OP_WRITE_ONLY_IMM ||
		     opcode == (TRANSPORT_UD | OP_SEND_ONLY) || opcode == (TRANSPORT_UD | OP_SEND_ONLY_IMM)))
			expect_same_straight(memory, &in, payload);
		assert_int_equal(record_get(memory, record_bytes(&in), &p, &from), 0);
		if (p.brief)
			record_get_rest(&p);
		expect_same(&in, &p);
		assert_memory_equal(p.payload, payload, length);
		assert_int_equal(!from, !(info->flags & HAS_DETH));
		if (!from)
			continue;
		assert_memory_equal(from, &here, sizeof(here));
		assert_memory_equal(p.to, &here, sizeof(here)); /* local peers have one address */
		assert_int_equal(p.traffic_class, 5);
	}
}

static void what_has_not_the_size_of_its_kind_is_refused(void **state)
{
	_Alignas(CACHE_LINE) char memory[256] = {0};
	struct record *r = (struct record *)memory;
	const union ibv_gid *from = NULL;
	struct packet p;
	uint32_t bytes;

	r->opcode = OP_SEND_ONLY;
	assert_int_equal(record_get(memory, sizeof(*r), &p, &from), 0);
	assert_int_equal(p.length, 0);
	assert_int_equal(record_get(memory, sizeof(*r) + 77, &p, &from), 0);
	assert_int_equal(p.length, 77);
	assert_int_equal(record_get(memory, sizeof(*r) - 1, &p, &from), -EBADMSG);
	r->opcode = 0xff;
	assert_int_equal(record_get(memory, 64, &p, &from), -EBADMSG);
	r->opcode = TRANSPORT_UD | OP_SEND_ONLY;
	bytes = sizeof(*r) + sizeof(struct record_datagram);
	assert_int_equal(record_get(memory, bytes, &p, &from), 0);
	assert_int_equal(record_get(memory, bytes - 1, &p, &from), -EBADMSG);
	r->opcode = OP_READ_REQUEST;
	bytes = sizeof(*r) + sizeof(struct record_remote);
	assert_int_equal(record_get(memory, bytes, &p, &from), 0);
	assert_int_equal(record_get(memory, bytes - 1, &p, &from), -EBADMSG);
	assert_int_equal(record_get(memory, bytes + 4, &p, &from), -EBADMSG);
}

static void a_message_that_is_delivered_has_no_payload(void **state)
{
	static const uint8_t opcode[] = {OP_SEND_ONLY, OP_SEND_ONLY_IMM, OP_WRITE_ONLY_IMM};
	_Alignas(CACHE_LINE) char memory[256] = {0};
	struct record *r = (struct record *)memory;
	const union ibv_gid *from = NULL;
	struct packet p;

	for (size_t i = 0; i < sizeof(opcode); i++) {
		struct packet in = packet_of(opcode[i], 1u << 31);

		in.position = 0x98765432;
		record_put_delivered(memory, &in, 5);
		assert_int_equal(record_get(memory, sizeof(*r), &p, &from), 0);
		assert_true(p.delivered && !p.ack_request && !p.pieces);
		assert_int_equal(p.opcode, opcode[i]);
		assert_int_equal(p.solicited, in.solicited);
		assert_int_equal(p.dest_qpn, in.dest_qpn);
		assert_int_equal(p.imm, in.imm);
		assert_int_equal(p.position, in.position);
		assert_int_equal(p.length, 1u << 31);
		assert_int_equal(record_get(memory, sizeof(*r) + 1, &p, &from), -EBADMSG);
		assert_int_equal(record_get(memory, sizeof(*r) - 1, &p, &from), -EBADMSG);
	}
	for (unsigned other = 0; other < 256; other++) {
		r->opcode = (uint8_t)other;
		if (!memchr(opcode, (int)other, sizeof(opcode)))
			assert_int_equal(record_get(memory, sizeof(*r), &p, &from), -EBADMSG);
	}
}

static void or_all_of_it(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t length, bytes; /* as the record says, and as it has */
		int result;
	} rows[] = {
		{OP_SEND_ONLY, 64, 64, 0},
		{OP_SEND_ONLY_IMM, 1, 1, 0},
		{OP_SEND_ONLY, 64, 63, -EBADMSG},
		{OP_SEND_ONLY, 64, 65, -EBADMSG},
		{OP_SEND_ONLY, 0, 1, -EBADMSG},
		{OP_SEND_ONLY, UINT32_MAX, 64, -EBADMSG},
		{OP_WRITE_ONLY_IMM, 64, 64, -EBADMSG}, /* where it belongs the record does not say */
	};
	_Alignas(CACHE_LINE) char memory[256] = {0};
	struct record *r = (struct record *)memory;
	const union ibv_gid *from = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct packet in = packet_of(rows[i].opcode, rows[i].length), p;

		record_put_delivered(memory, &in, 5);
		assert_int_equal(record_get(memory, sizeof(*r) + rows[i].bytes, &p, &from), rows[i].result);
		if (rows[i].result)
			continue;
		assert_true(p.delivered);
		assert_int_equal(p.length, rows[i].length);
		assert_ptr_equal(p.payload, r + 1);
	}
}

static void a_small_message_takes_one_unit(void **state)
{
	struct packet send = packet_of(OP_SEND_ONLY, 64), datagram = packet_of(TRANSPORT_UD | OP_SEND_ONLY, 64),
		      write = packet_of(OP_WRITE_ONLY_IMM, 64);

	assert_int_equal(ring_round(record_bytes(&send)), RING_UNIT);
	assert_int_equal(ring_round(record_bytes(&datagram)), RING_UNIT);
	assert_int_equal(ring_round(record_bytes(&write)), RING_UNIT);
}

/* In place of the payload: where it lies. */
static void a_reference_comes_out_as_it_went_in(void **state)
{
	_Alignas(CACHE_LINE) char memory[256];
	const struct packet_piece piece[2] = {{0x123456789abc, 1 << 20, 17}, {0x1000, 5, 18}};
	struct packet p, in = packet_of(OP_SEND_LAST_IMM, piece[0].length + piece[1].length);
	struct iovec iov = {(void *)piece, sizeof(piece)};
	struct link_tx tx = {.packet = &in, .iov = &iov, .iovs = 1, .dgid = &there};
	struct record *r = (struct record *)memory;
	const union ibv_gid *from = NULL;
	uint32_t bytes;

	in.pieces = 2;
	bytes = record_bytes(&in);
	assert_int_equal(bytes, sizeof(struct record) + sizeof(piece));
	record_put(memory, &tx);
	assert_int_equal(record_get(memory, bytes, &p, &from), 0);
	expect_same(&in, &p);
	assert_int_equal(p.pieces, 2);
	assert_memory_equal(p.payload, piece, sizeof(piece));

	assert_int_equal(record_get(memory, bytes - 1, &p, &from), -EBADMSG);
	assert_int_equal(record_get(memory, sizeof(*r), &p, &from), -EBADMSG);
	for (int opcode = 0; opcode < 256; opcode++) { /* of what else could it be? */
		bool can = TRANSPORT(opcode) == TRANSPORT_RC && opcode_info[opcode].flags & (IS_SEND | IS_WRITE);

		in.opcode = r->opcode = (uint8_t)opcode;
		memset(r + 1, 0, sizeof(memory) - sizeof(*r));
		assert_int_equal(record_get(memory, record_bytes(&in), &p, &from), can ? 0 : -EBADMSG);
	}
	r->opcode = OP_SEND_ONLY;
	memcpy(r + 1, piece, sizeof(piece));
	((struct packet_piece *)(r + 1))[0].length = UINT32_MAX;
	assert_int_equal(record_get(memory, bytes, &p, &from), -EBADMSG);
}

/* What a broken producer changes behind our back does not change what was found. */
static void where_a_payload_lies_is_read_once(void **state)
{
	const struct packet_piece piece = {.address = 0x1000, .length = 100, .rkey = 7};
	_Alignas(CACHE_LINE) char memory[256] = {0};
	struct packet_piece *there = (struct packet_piece *)(memory + sizeof(struct record));
	struct record *r = (struct record *)memory;
	const uint32_t bytes = sizeof(*r) + sizeof(piece);

	for (int any = 0; any < 2; any++) {
		const union ibv_gid *from = NULL;
		struct packet p = {0};

		*r = (struct record){.bytes = bytes, .opcode = OP_SEND_ONLY, .flags = RECORD_REFERENCE};
		*there = piece;
		assert_int_equal(any ? record_get_any(memory, bytes, &p, &from) : record_get(memory, bytes, &p, &from),
				 0);
		*there = (struct packet_piece){.address = 1, .length = UINT32_MAX, .rkey = 2};
		assert_int_equal(p.length, piece.length);
		assert_int_equal(p.pieces, 1);
		assert_memory_equal(p.payload, &piece, sizeof(piece));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_packet_of_every_kind_comes_out_as_it_went_in),
		cmocka_unit_test(a_message_that_is_delivered_has_no_payload),
		cmocka_unit_test(or_all_of_it),
		cmocka_unit_test(a_small_message_takes_one_unit),
		cmocka_unit_test(a_reference_comes_out_as_it_went_in),
		cmocka_unit_test(what_has_not_the_size_of_its_kind_is_refused),
		cmocka_unit_test(where_a_payload_lies_is_read_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
