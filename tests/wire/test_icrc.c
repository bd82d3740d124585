/* SPDX-License-Identifier: BSD-2-Clause */
/* The ICRC against its definition, and what an unknown IPv4 identification costs in certainty. */
#include <errno.h>
#include <string.h>

#include "wire/engines.h"
#include "wire/icrc.h"

static const uint8_t V4_A[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1}, V4_B[16] = {[10] = 0xff, 0xff, 198, 51, 100, 77};
static const uint8_t V6_A[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}, V6_B[16] = {0xfe, 0x80, [8] = 2, [15] = 0xfe};

static uint64_t state;

static uint32_t random_32(void)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return state >> 32;
}

static void fill_random(uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = random_32();
}

static uint8_t *put(uint8_t *at, uint32_t value, int bytes)
{
	while (bytes--)
		*at++ = value >> 8 * bytes;
	return at;
}

/* Annex A17 word for word: all headers written out, fields masked, one CRC. `n`: from the BTH on, without
 * ICRC. */
static uint32_t icrc_by_the_book(const uint8_t saddr[16], const uint8_t daddr[16], uint16_t sport, uint16_t dport,
				 uint16_t identification, const uint8_t *bytes, size_t n)
{
	static uint8_t all[70000];
	uint8_t *at = all, *bth;
	bool ipv4 = daddr[10] == 0xff;

	memset(at, 0xff, 8);
	at += 8;
	if (ipv4) {
		at = put(at, 0x45ff, 2);
		at = put(at, 20 + 8 + n + 4, 2);
		at = put(at, identification, 2);
		at = put(at, 0x4000, 2);
		at = put(at, 0xff11, 2);
		at = put(at, 0xffff, 2);
		memcpy(at, saddr + 12, 4), at += 4;
		memcpy(at, daddr + 12, 4), at += 4;
	} else {
		at = put(at, 0x6fffffff, 4);
		at = put(at, 8 + n + 4, 2);
		at = put(at, 0x11ff, 2);
		memcpy(at, saddr, 16), at += 16;
		memcpy(at, daddr, 16), at += 16;
	}
	at = put(at, sport, 2);
	at = put(at, dport, 2);
	at = put(at, 8 + n + 4, 2);
	at = put(at, 0xffff, 2);
	bth = at;
	memcpy(at, bytes, n), at += n;
	bth[4] = 0xff;
	return crc(0, all, at - all);
}

static void compare_with_the_book(const uint8_t saddr[16], const uint8_t daddr[16])
{
	static uint8_t bytes[65000];
	struct icrc_flow flow;

	for (size_t n = 12; n < sizeof(bytes); n += n < 300 ? 1 : n / 5) {
		uint16_t sport = random_32();
		uint16_t dport = random_32();
		uint16_t id = random_32();

		fill_random(bytes, n);
		icrc_flow_init(&flow, saddr, daddr, sport, dport);
		assert_int_equal(icrc_start(&flow, id, n + 4, bytes, n),
				 icrc_by_the_book(saddr, daddr, sport, dport, id, bytes, n));
	}
}

static void icrc_is_what_annex_a17_says(void **unused)
{
	compare_with_the_book(V4_A, V4_B);
	compare_with_the_book(V6_A, V6_B);
}

static void make_packet(const struct icrc_flow *flow, uint16_t identification, uint8_t *bytes, size_t length)
{
	size_t n = length - ICRC_BYTES;

	fill_random(bytes, n);
	icrc_put(bytes + n, icrc_start(flow, identification, length, bytes, n));
}

static void every_identification_is_found_at_every_length(void **unused)
{
	static uint8_t bytes[65507];
	struct icrc_flow flow;

	icrc_flow_init(&flow, V4_A, V4_B, 49152, 4791);
	for (size_t length = 16; length <= sizeof(bytes); length += length < 1000 ? 4 : length / 3) {
		uint16_t id = random_32();

		make_packet(&flow, id, bytes, length);
		assert_int_equal(icrc_check(&flow, bytes, length, 0), id);
		assert_int_equal(icrc_check(&flow, bytes, length, id), id);
		assert_int_equal(icrc_check(&flow, bytes, length, random_32()), id);
	}
	for (uint32_t id = 0; id <= UINT16_MAX; id++) {
		make_packet(&flow, id, bytes, 32);
		assert_int_equal(icrc_check(&flow, bytes, 32, 0), id);
	}
}

static unsigned passed(const struct icrc_flow *flow, unsigned trials)
{
	uint8_t bytes[32];
	unsigned good = 0;

	for (unsigned i = 0; i < trials; i++) {
		uint8_t *at = bytes + 12 + random_32() % 13;

		make_packet(flow, 0, bytes, sizeof(bytes));
		put(at, random_32(), 4);
		good += icrc_check(flow, bytes, sizeof(bytes), 0) >= 0;
	}
	return good;
}

/* A corrupted IPv4 packet passes if its CRC difference is one that an identification can cause: 2^16 of
 * 2^32. */
static void of_corrupted_packets_one_in_65536_passes(void **unused)
{
	const unsigned trials = getenv("UROCE_QUICK") && *getenv("UROCE_QUICK") ? 1 << 18 : 1 << 21;
	const double expected = trials / 65536.0;
	struct icrc_flow flow;
	unsigned good;

	state = 1;
	icrc_flow_init(&flow, V4_A, V4_B, 49152, 4791);
	good = passed(&flow, trials);
	print_message("# IPv4: %u of %u corrupted packets pass, %.0f expected\n", good, trials, expected);
	assert_true(good <= 2 * expected + 8);
	assert_true(2 * good + 8 >= expected);

	icrc_flow_init(&flow, V6_A, V6_B, 49152, 4791);
	assert_int_equal(passed(&flow, trials / 8), 0);
}

static void a_packet_too_short_for_a_bth_or_too_long_for_udp_is_refused(void **unused)
{
	static uint8_t bytes[65536];
	struct icrc_flow flow;

	icrc_flow_init(&flow, V4_A, V4_B, 49152, 4791);
	for (size_t length = 0; length < 16; length++)
		assert_int_equal(icrc_check(&flow, bytes, length, 0), -EBADMSG);
	assert_int_equal(icrc_check(&flow, bytes, 65536, 0), -EBADMSG);
}

static void the_icrc_goes_least_significant_byte_first(void **unused)
{
	uint8_t at[4];

	icrc_put(at, 0x01020304);
	assert_memory_equal(at, ((uint8_t[]){4, 3, 2, 1}), 4);
}

/* A buffer in which a packet ends at every 16th byte, and at no other: the scan says so. */
static void the_scan_finds_every_end(void **unused)
{
	static uint8_t bytes[ICRC_SCAN_MOST];
	const uint8_t *ends[][2] = {{V4_A, V4_B}, {V6_A, V6_B}};

	for (size_t k = 0; k < 2; k++) {
		uint16_t id = random_32();
		struct icrc_flow flow;
		struct icrc_scan scan;

		icrc_flow_init(&flow, ends[k][0], ends[k][1], 49152, 4791);
		fill_random(bytes, sizeof(bytes));
		for (uint32_t end = 16; end <= sizeof(bytes); end += 16)
			icrc_put(bytes + end - 4, icrc_start(&flow, id, end, bytes, end - 4));
		icrc_scan_start(&scan, &flow, bytes, id);
		for (uint32_t length = 16; length <= sizeof(bytes); length += 4) {
			uint32_t difference = icrc_scan_next(&scan);

			assert_int_equal(scan.length, length);
			assert_int_equal(!difference, length % 16 == 0);
			assert_int_equal(!difference, icrc_is_right(&flow, bytes, length, id));
		}
		icrc_scan_start(&scan, &flow, bytes, (uint16_t)(id + 77));
		if (k == 0)
			assert_int_equal(icrc_identification(icrc_scan_next(&scan), 16, (uint16_t)(id + 77)), id);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(icrc_is_what_annex_a17_says),
		cmocka_unit_test(every_identification_is_found_at_every_length),
		cmocka_unit_test(of_corrupted_packets_one_in_65536_passes),
		cmocka_unit_test(a_packet_too_short_for_a_bth_or_too_long_for_udp_is_refused),
		cmocka_unit_test(the_icrc_goes_least_significant_byte_first),
		cmocka_unit_test(the_scan_finds_every_end),
	};

	return engines_run(tests, ARRAY_SIZE(tests), NULL);
}
