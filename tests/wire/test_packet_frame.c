/* SPDX-License-Identifier: BSD-2-Clause */
/* The headers of frames: those of the kernel's rxe are read and written again, byte for byte; what is no whole datagram
 * to port 4791 is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/packet_frame.h"
#include "wire/capture.h"
#include "wire/packet.h"

enum { PACKETS = 2221, /* in tests/vectors */ UDP_SUM = 6, UDP_HEADER = 8 };

static union ibv_gid packet_frame_gid(const char *text)
{
	union ibv_gid g = {0};

	if (inet_pton(AF_INET6, text, g.raw) == 1)
		return g;
	g.raw[10] = g.raw[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, text, g.raw + 12), 1);
	return g;
}

static void read_and_write(const struct captured *c)
{
	uint8_t out[FRAME_MOST];
	struct packet_frame f;
	uint32_t headers;

	assert_int_equal(packet_frame_parse(&f, c->frame, (uint32_t)c->frame_length), 0);
	assert_memory_equal(f.from.raw, c->saddr, 16);
	assert_memory_equal(f.to.raw, c->daddr, 16);
	assert_int_equal(f.port, c->sport);
	assert_int_equal(f.identification, c->identification);
	assert_int_equal(f.bytes, c->length);
	assert_memory_equal(f.payload, c->bytes, c->length);

	memcpy(out, c->frame, FRAME_ETHERNET);
	headers = packet_frame_put(&f, FRAME_SUM_NONE, out);
	assert_int_equal(headers, packet_frame_headers(c->is_ipv4));
	/* the recorded UDP checksum may be one that a device was to finish */
	memcpy(out + headers - UDP_HEADER + UDP_SUM, c->frame + headers - UDP_HEADER + UDP_SUM, 2);
	assert_memory_equal(out, c->frame, headers);
}

static void frames_of_the_kernel_are_read_and_written_byte_for_byte(void **state)
{
	assert_int_equal(captured_everywhere(read_and_write), PACKETS);
}

/* ---- the UDP checksum ---- */

static uint16_t sum_of(uint32_t sum, const uint8_t *bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		sum += i & 1 ? bytes[i] : bytes[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* As a receiver checks it: over the pseudo header, the UDP header and the payload. */
static void the_device_finishes_the_checksum(void **state)
{
	static const char *const addresses[][2] = {{"10.1.2.3", "192.168.255.254"}, {"fd00::1", "2001:db8::ffff"}};

	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		struct packet_frame f = {.from = packet_frame_gid(addresses[i][0]),
					 .to = packet_frame_gid(addresses[i][1]),
					 .port = ROCE_PORT,
					 .bytes = 100};
		uint8_t out[FRAME_MOST + 100], *udp;
		uint32_t headers = packet_frame_put(&f, FRAME_SUM_PSEUDO, out), n = i ? 32 : 8;
		uint16_t sum;

		for (int k = 0; k < 100; k++)
			out[headers + (uint32_t)k] = (uint8_t)(7 * k + 3);
		udp = out + headers - UDP_HEADER;
		sum = (uint16_t)~sum_of(0, udp, UDP_HEADER + 100); /* what the device does */
		udp[UDP_SUM] = (uint8_t)(sum >> 8);
		udp[UDP_SUM + 1] = (uint8_t)sum;
		sum = sum_of(UDP_HEADER + 100 + 17, udp - n, n);
		assert_int_equal(sum_of(sum, udp, UDP_HEADER + 100), 0xffff);
	}
}

/* ---- strangers' bytes ---- */

enum { ETHERNET_TYPE = 12, IP = 14, V4_UDP = IP + 20, V6_UDP = IP + 40, PAYLOAD = 16, PADDED = 80 };

static const struct {
	const char *what;
	bool is_ipv6;
	uint32_t bytes; /* of the frame; 0: all */
	uint32_t at;
	uint8_t value; /* there */
	bool keep_sum; /* of the IPv4 header, which is otherwise made right */
	bool good;
} rows[] = {
	{"as it should be", .good = true, .at = IP, .value = 0x45},
	{"as it should be", .is_ipv6 = true, .good = true, .at = IP, .value = 0x60},
	{"padded", .bytes = PADDED, .good = true, .at = IP, .value = 0x45},
	{"padded", .is_ipv6 = true, .bytes = PADDED, .good = true, .at = IP, .value = 0x60},
	{"nothing", .bytes = 1, .at = IP, .value = 0x45},
	{"an Ethernet header", .bytes = 14, .at = IP, .value = 0x45},
	{"half an IP header", .bytes = 24, .at = IP, .value = 0x45},
	{"no UDP header", .bytes = 34, .at = IP, .value = 0x45},
	{"half an IP header", .is_ipv6 = true, .bytes = 40, .at = IP, .value = 0x60},
	{"the last byte is missing", .bytes = V4_UDP + 8 + PAYLOAD - 1, .at = IP, .value = 0x45},
	{"the last byte is missing", .is_ipv6 = true, .bytes = V6_UDP + 8 + PAYLOAD - 1, .at = IP, .value = 0x60},
	{"ARP", .at = ETHERNET_TYPE + 1, .value = 6},
	{"IPv6 by its type, IPv4 by its version", .is_ipv6 = true, .at = IP, .value = 0x45},
	{"version 5", .at = IP, .value = 0x55},
	{"IPv4 options", .at = IP, .value = 0x46},
	{"a header shorter than one", .at = IP, .value = 0x44},
	{"more follows", .at = IP + 6, .value = 0x20},
	{"a later fragment", .at = IP + 7, .value = 1},
	{"TCP", .at = IP + 9, .value = 6},
	{"an extension header", .is_ipv6 = true, .at = IP + 6, .value = 44},
	{"a wrong checksum", .at = IP + 10, .value = 0x77, .keep_sum = true},
	{"longer than the frame", .at = IP + 2, .value = 1},
	{"longer than the frame", .is_ipv6 = true, .at = IP + 4, .value = 1},
	{"shorter than its headers", .at = IP + 3, .value = 27},
	{"another port", .at = V4_UDP + 3, .value = 0},
	{"another port", .is_ipv6 = true, .at = V6_UDP + 3, .value = 0},
	{"UDP is longer than IP", .at = V4_UDP + 4, .value = 1},
	{"UDP is shorter than IP", .at = V4_UDP + 5, .value = 8},
	{"UDP is longer than IP", .is_ipv6 = true, .at = V6_UDP + 5, .value = 255},
};

static void mend_sum(uint8_t *ip)
{
	uint16_t sum;

	ip[10] = ip[11] = 0;
	sum = (uint16_t)~sum_of(0, ip, 20);
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
}

static void what_is_no_whole_datagram_to_us_is_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct packet_frame f = {.from = packet_frame_gid(rows[i].is_ipv6 ? "fd00::1" : "10.0.0.1"),
					 .to = packet_frame_gid(rows[i].is_ipv6 ? "fd00::2" : "10.0.0.2"),
					 .port = 50000,
					 .hops = 64,
					 .bytes = PAYLOAD},
				    got;
		uint8_t *frame = calloc(1, 200), *exact;
		uint32_t bytes, header;

		assert_non_null(frame);
		frame[ETHERNET_TYPE] = rows[i].is_ipv6 ? 0x86 : 0x08;
		frame[ETHERNET_TYPE + 1] = rows[i].is_ipv6 ? 0xdd : 0;
		header = packet_frame_put(&f, FRAME_SUM_PSEUDO, frame);
		bytes = rows[i].bytes ?: header + PAYLOAD;
		frame[rows[i].at] = rows[i].value;
		if (!rows[i].is_ipv6 && !rows[i].keep_sum)
			mend_sum(frame + IP);
		exact = malloc(bytes); /* so that a look beyond the end is seen */
		assert_non_null(exact);
		memcpy(exact, frame, bytes);
		if ((packet_frame_parse(&got, exact, bytes) == 0) != rows[i].good)
			fail_msg("row %zu, %s: not %s", i, rows[i].what, rows[i].good ? "taken" : "refused");
		if (rows[i].good)
			assert_int_equal(got.bytes, PAYLOAD);
		free(exact);
		free(frame);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_of_the_kernel_are_read_and_written_byte_for_byte),
		cmocka_unit_test(the_device_finishes_the_checksum),
		cmocka_unit_test(what_is_no_whole_datagram_to_us_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
