/* SPDX-License-Identifier: BSD-2-Clause */
/* The opcode table, against the specification's (IBTA 9.2, tables 38 and 39; annexes A14 and A17). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "wire/packet.h"

enum {
	HEADERS = HAS_RDETH | HAS_DETH | HAS_XRCETH | HAS_RETH | HAS_ATOMICETH | HAS_AETH | HAS_ATOMICACKETH | HAS_IMM |
		  HAS_IETH,
};

/* An operation of a connected transport: extended headers, their bytes for RC, whether a payload follows. */
static const struct operation_row {
	uint8_t operation;
	const char *name;
	uint32_t headers;
	uint8_t bytes;
	bool payload;
	char place; /* in its message: First Middle Last Only */
	bool request, reliable;
} operations[] = {
	{0x00, "SEND_FIRST", 0, 0, true, 'F', true, false},
	{0x01, "SEND_MIDDLE", 0, 0, true, 'M', true, false},
	{0x02, "SEND_LAST", 0, 0, true, 'L', true, false},
	{0x03, "SEND_LAST_IMM", HAS_IMM, 4, true, 'L', true, false},
	{0x04, "SEND_ONLY", 0, 0, true, 'O', true, false},
	{0x05, "SEND_ONLY_IMM", HAS_IMM, 4, true, 'O', true, false},
	{0x06, "WRITE_FIRST", HAS_RETH, 16, true, 'F', true, false},
	{0x07, "WRITE_MIDDLE", 0, 0, true, 'M', true, false},
	{0x08, "WRITE_LAST", 0, 0, true, 'L', true, false},
	{0x09, "WRITE_LAST_IMM", HAS_IMM, 4, true, 'L', true, false},
	{0x0a, "WRITE_ONLY", HAS_RETH, 16, true, 'O', true, false},
	{0x0b, "WRITE_ONLY_IMM", HAS_RETH | HAS_IMM, 20, true, 'O', true, false},
	{0x0c, "READ_REQUEST", HAS_RETH, 16, false, 'O', true, true},
	{0x0d, "READ_RESPONSE_FIRST", HAS_AETH, 4, true, 'F', false, true},
	{0x0e, "READ_RESPONSE_MIDDLE", 0, 0, true, 'M', false, true},
	{0x0f, "READ_RESPONSE_LAST", HAS_AETH, 4, true, 'L', false, true},
	{0x10, "READ_RESPONSE_ONLY", HAS_AETH, 4, true, 'O', false, true},
	{0x11, "ACKNOWLEDGE", HAS_AETH, 4, false, 'O', false, true},
	{0x12, "ATOMIC_ACKNOWLEDGE", HAS_AETH | HAS_ATOMICACKETH, 12, false, 'O', false, true},
	{0x13, "COMPARE_SWAP", HAS_ATOMICETH, 28, false, 'O', true, true},
	{0x14, "FETCH_ADD", HAS_ATOMICETH, 28, false, 'O', true, true},
	{0x16, "SEND_LAST_INV", HAS_IETH, 4, true, 'L', true, true},
	{0x17, "SEND_ONLY_INV", HAS_IETH, 4, true, 'O', true, true},
	{0x1d, "ATOMIC_WRITE", HAS_RETH, 16, true, 'O', true, true},
};

static void check_row(const struct operation_row *row, uint8_t transport, const char *prefix, uint32_t more,
		      uint8_t more_bytes)
{
	const struct opcode_info *info = &opcode_info[transport | row->operation];

	assert_non_null(info->name);
	assert_memory_equal(info->name, prefix, strlen(prefix));
	assert_string_equal(info->name + strlen(prefix), row->name);
	assert_int_equal(info->flags & HEADERS, row->headers | (row->request ? more : 0));
	assert_int_equal(info->header_bytes, 12 + row->bytes + (row->request ? more_bytes : 0));
	assert_int_equal(!!(info->flags & HAS_PAYLOAD), row->payload);
	assert_int_equal(!!(info->flags & IS_FIRST), row->place == 'F' || row->place == 'O');
	assert_int_equal(!!(info->flags & IS_LAST), row->place == 'L' || row->place == 'O');
	assert_int_equal(!!(info->flags & IS_REQUEST), row->request);
	assert_int_equal(!!(info->flags & IS_RESPONSE), !row->request);
	assert_int_equal(!!(info->flags & IS_SEND), !strncmp(row->name, "SEND", 4));
	assert_int_equal(!!(info->flags & IS_WRITE), !strncmp(row->name, "WRITE", 5));
	assert_int_equal(!!(info->flags & IS_READ), !strncmp(row->name, "READ", 4));
}

static const struct operation_row *find_row(uint8_t operation)
{
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
		if (operations[i].operation == operation)
			return &operations[i];
	return NULL;
}

static void rc_has_all_operations(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
		check_row(&operations[i], 0x00, "RC_", 0, 0);
}

static void uc_has_sends_and_writes(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
		if (!operations[i].reliable)
			check_row(&operations[i], 0x20, "UC_", 0, 0);
		else
			assert_null(opcode_info[0x20 | operations[i].operation].name);
}

static void ud_has_send_only_with_a_deth(void **state)
{
	for (unsigned operation = 0; operation < 32; operation++)
		if (operation == OP_SEND_ONLY || operation == OP_SEND_ONLY_IMM)
			check_row(find_row(operation), 0x60, "UD_", HAS_DETH, 8);
		else
			assert_null(opcode_info[0x60 | operation].name);
}

static void xrc_adds_an_xrceth_to_requests(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
		check_row(&operations[i], 0xa0, "XRC_", HAS_XRCETH, 4);
}

static void a_cnp_is_for_neither_requester_nor_responder(void **state)
{
	const struct opcode_info *info = &opcode_info[0x81];

	assert_string_equal(info->name, "CNP");
	assert_int_equal(info->header_bytes, 12);
	assert_true(info->flags & HAS_PAYLOAD);
	assert_false(info->flags & (IS_REQUEST | IS_RESPONSE | HEADERS));
}

/* Of the manufacturers' range, between two uroce (wire/sack.h). */
static void selective_acknowledgement_is_one_more(void **state)
{
	assert_string_equal(opcode_info[0xc2].name, "SELECTIVE_ACK");
	assert_int_equal(opcode_info[0xc2].header_bytes, 12);
	assert_int_equal(opcode_info[0xc2].flags & (HEADERS | HAS_PAYLOAD | IS_REQUEST | IS_RESPONSE), HAS_PAYLOAD);
}

/* The same of responses (engine/reassembly.h). */
static void answers_again_are_two_more(void **state)
{
	assert_string_equal(opcode_info[0xc3].name, "ANSWER_AGAIN");
	assert_int_equal(opcode_info[0xc3].header_bytes, 12 + 16);
	assert_int_equal(opcode_info[0xc3].flags & (HEADERS | HAS_PAYLOAD | IS_REQUEST | IS_RESPONSE), HAS_RETH);
	assert_string_equal(opcode_info[0xc4].name, "ANSWERED_AGAIN");
	assert_int_equal(opcode_info[0xc4].header_bytes, 12);
	assert_int_equal(opcode_info[0xc4].flags & (HEADERS | HAS_PAYLOAD | IS_REQUEST | IS_RESPONSE), HAS_PAYLOAD);
}

/* Of the manufacturers' range: they are for flow control of UC and UD (engine/flow.c). */
static void flow_control_has_two_of_our_own(void **state)
{
	assert_string_equal(opcode_info[0xc0].name, "CREDIT_REQUEST");
	assert_int_equal(opcode_info[0xc0].header_bytes, 12 + 8);
	/* a request: it travels behind those that it asks about */
	assert_int_equal(opcode_info[0xc0].flags & (HEADERS | HAS_PAYLOAD | IS_REQUEST | IS_RESPONSE),
			 HAS_DETH | IS_REQUEST);
	assert_string_equal(opcode_info[0xc1].name, "CREDIT_GRANT");
	assert_int_equal(opcode_info[0xc1].header_bytes, 12 + 8 + 4);
	assert_int_equal(opcode_info[0xc1].flags & (HEADERS | HAS_PAYLOAD | IS_REQUEST | IS_RESPONSE),
			 HAS_DETH | HAS_IMM);
}

static void all_other_opcodes_are_unknown(void **state)
{
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct operation_row *row = find_row(opcode & 31);
		bool known = opcode == 0x81 || (opcode >= 0xc0 && opcode <= 0xc4);

		switch (opcode & 0xe0) {
		case 0x00:
		case 0xa0:
			known = row;
			break;
		case 0x20:
			known = row && !row->reliable;
			break;
		case 0x60:
			known = (opcode & 31) == 4 || (opcode & 31) == 5;
		}
		if (known) {
			assert_in_range(opcode_info[opcode].header_bytes, 12, PACKET_HEADERS);
		} else {
			assert_null(opcode_info[opcode].name);
			assert_int_equal(opcode_info[opcode].flags, 0);
			assert_int_equal(opcode_info[opcode].header_bytes, 0);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rc_has_all_operations),
		cmocka_unit_test(uc_has_sends_and_writes),
		cmocka_unit_test(ud_has_send_only_with_a_deth),
		cmocka_unit_test(xrc_adds_an_xrceth_to_requests),
		cmocka_unit_test(a_cnp_is_for_neither_requester_nor_responder),
		cmocka_unit_test(selective_acknowledgement_is_one_more),
		cmocka_unit_test(answers_again_are_two_more),
		cmocka_unit_test(flow_control_has_two_of_our_own),
		cmocka_unit_test(all_other_opcodes_are_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
