/* SPDX-License-Identifier: BSD-2-Clause */
/* What two kernels said to each other parses, has the right ICRC, and encodes back to the same bytes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "capture.h"
#include "wire/icrc.h"
#include "wire/packet.h"

enum { PACKETS = 2221 }; /* in tests/vectors */

static void parse_and_encode(const struct captured *c)
{
	uint8_t out[sizeof(c->bytes)];
	struct icrc_flow flow;
	struct packet p;
	size_t n;

	assert_int_equal(packet_parse(&p, c->bytes, c->length - ICRC_BYTES), 0);
	assert_int_equal(packet_bytes(&p), c->length);

	n = packet_encode(&p, out);
	assert_int_equal(n, opcode_info[p.opcode].header_bytes);
	memcpy(out + n, p.payload, p.length);
	n += p.length;
	memset(out + n, 0, packet_pad(p.length));
	n += packet_pad(p.length);
	icrc_flow_init(&flow, c->saddr, c->daddr, c->sport, c->dport);
	icrc_put(out + n, icrc_start(&flow, c->identification, n + ICRC_BYTES, out, n));
	n += ICRC_BYTES;

	assert_int_equal(n, c->length);
	assert_memory_equal(out, c->bytes, n);
}

static void every_packet_encodes_to_its_own_bytes(void **state)
{
	(void)state;
	assert_int_equal(captured_everywhere(parse_and_encode), PACKETS);
}

/* As the sender makes it: headers, then pieces of payload. */
static void sum_in_pieces(const struct captured *c)
{
	size_t n = c->length - ICRC_BYTES, header = opcode_info[c->bytes[0]].header_bytes, step = 1;
	struct icrc_flow flow;
	uint8_t end[ICRC_BYTES];
	uint32_t icrc;

	icrc_flow_init(&flow, c->saddr, c->daddr, c->sport, c->dport);
	icrc = icrc_start(&flow, c->identification, c->length, c->bytes, header);
	for (size_t at = header; at < n; at += step++) {
		step = min_of(step, n - at);
		icrc = icrc_add(icrc, c->bytes + at, step);
	}
	icrc_put(end, icrc);
	assert_memory_equal(end, c->bytes + n, ICRC_BYTES);
}

static void the_icrc_does_not_depend_on_how_a_packet_is_cut(void **state)
{
	(void)state;
	assert_int_equal(captured_everywhere(sum_in_pieces), PACKETS);
}

static void hide_identification(const struct captured *c)
{
	const uint16_t guesses[] = {c->identification, c->identification + 1, 0, 0xffff, 0x5555};
	struct icrc_flow flow;

	icrc_flow_init(&flow, c->saddr, c->daddr, c->sport, c->dport);
	for (size_t i = 0; i < ARRAY_SIZE(guesses); i++)
		assert_int_equal(icrc_check(&flow, c->bytes, c->length, guesses[i]), c->identification);
}

static void every_icrc_verifies_with_the_identification_hidden(void **state)
{
	(void)state;
	assert_int_equal(captured_everywhere(hide_identification), PACKETS);
}

static unsigned flips, alike;

static void flip(const struct icrc_flow *flow, uint8_t *bytes, size_t length, size_t bit)
{
	int identification;

	bytes[bit / 8] ^= 1 << bit % 8;
	identification = icrc_check(flow, bytes, length, 0);
	flips++;
	if (identification >= 0) {
		/* then it cannot be told from a good packet that has this identification */
		assert_true(flow->is_ipv4);
		assert_int_equal(icrc_check(flow, bytes, length, identification), identification);
		alike++;
	}
	bytes[bit / 8] ^= 1 << bit % 8;
}

static void flip_bits(const struct captured *c)
{
	static struct captured bad;
	struct icrc_flow flow;

	icrc_flow_init(&flow, c->saddr, c->daddr, c->sport, c->dport);
	bad = *c;
	for (size_t bit = 0; bit < 8 * c->length; bit += bit < 8 * PACKET_HEADERS ? 1 : 37)
		if (bit / 8 != 4) /* FECN, BECN and reserved: masked */
			flip(&flow, bad.bytes, bad.length, bit);
	for (size_t bit = 8 * (c->length - ICRC_BYTES); bit < 8 * c->length; bit++)
		flip(&flow, bad.bytes, bad.length, bit);
}

static void a_flipped_bit_is_found(void **state)
{
	(void)state;
	assert_int_equal(captured_everywhere(flip_bits), PACKETS);
	print_message("# %u of %u flipped bits look like another identification\n", alike, flips);
	assert_true(alike < flips / 8192);
}

static void pass_a_switch(const struct captured *c)
{
	static struct captured marked;
	struct icrc_flow flow;
	struct packet p;

	marked = *c;
	marked.bytes[4] |= 0x80;
	icrc_flow_init(&flow, c->saddr, c->daddr, c->sport, c->dport);
	assert_int_equal(icrc_check(&flow, marked.bytes, marked.length, c->identification), c->identification);
	assert_int_equal(packet_parse(&p, marked.bytes, marked.length - ICRC_BYTES), 0);
	assert_true(p.fecn);
}

static void a_congestion_mark_leaves_the_icrc_right(void **state)
{
	(void)state;
	assert_int_equal(captured_everywhere(pass_a_switch), PACKETS);
}

static void change_the_headers_before(const struct captured *c)
{
	struct icrc_flow flow;

	for (unsigned bit = 0; bit < 32; bit++) {
		struct captured bad = {.sport = c->sport, .dport = c->dport};

		memcpy(bad.saddr, c->saddr, 16);
		memcpy(bad.daddr, c->daddr, 16);
		bad.saddr[12 + bit / 8] ^= 1 << bit % 8;
		icrc_flow_init(&flow, bad.saddr, bad.daddr, bad.sport, bad.dport);
		assert_int_equal(icrc_check(&flow, c->bytes, c->length, c->identification), -EBADMSG);
		icrc_flow_init(&flow, c->saddr, c->daddr, c->sport ^ 1 << bit % 16, c->dport);
		assert_int_equal(icrc_check(&flow, c->bytes, c->length, c->identification), -EBADMSG);
	}
}

static void a_wrong_address_or_port_is_found(void **state)
{
	(void)state;
	assert_int_equal(captured_everywhere(change_the_headers_before), PACKETS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_packet_encodes_to_its_own_bytes),
		cmocka_unit_test(the_icrc_does_not_depend_on_how_a_packet_is_cut),
		cmocka_unit_test(every_icrc_verifies_with_the_identification_hidden),
		cmocka_unit_test(a_flipped_bit_is_found),
		cmocka_unit_test(a_congestion_mark_leaves_the_icrc_right),
		cmocka_unit_test(a_wrong_address_or_port_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
