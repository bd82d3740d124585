/* SPDX-License-Identifier: BSD-2-Clause */
/* The ICRC. A CRC is linear: changing bits of a packet changes the CRC by a value that depends only on these bits and
 * on the number of bytes after them. So the CRC over the headers that all packets of a flow share is computed once, and
 * tables add the fields that differ. From a wrong CRC follows the identification that would make it right. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <pthread.h>

#include "base/be.h"
#include "base/address.h"
#include "wire/headers.h"
#include "wire/icrc.h"
#include "wire/packet.h"

/* The effect of a 16-bit big-endian field before the BTH on the register at the BTH. */
struct field {
	uint32_t high[256], low[256];
};

static struct field ip4_length, ip4_identification, ip6_length, udp_length;

/* The effect on the register before the BTH that replaces the value of the masked byte by ones. */
static uint32_t masked_byte[256];

/* x^(-8n), which undoes n zero bytes, is back_low[n % 256] * back_high[n / 256]. */
static uint32_t back_low[256], back_high[257];

static void make_field(struct field *f, size_t offset, size_t headers)
{
	crc_multiples(f->high, crc_power(8 * (int64_t)(headers - offset)));
	crc_multiples(f->low, crc_power(8 * (int64_t)(headers - offset - 1)));
}

static void make_powers(uint32_t *power, size_t count, uint32_t base)
{
	power[0] = CRC_ONE;
	for (size_t n = 1; n < count; n++)
		power[n] = crc_multiply(power[n - 1], base);
}

static void icrc_make_tables(void)
{
	enum { IP4 = sizeof(struct ip), IP6 = sizeof(struct ip6_hdr), UDP = sizeof(struct udphdr) };
	uint32_t masked[256];

	crc_init();
	make_field(&ip4_length, offsetof(struct ip, ip_len), IP4 + UDP);
	make_field(&ip4_identification, offsetof(struct ip, ip_id), IP4 + UDP);
	make_field(&ip6_length, offsetof(struct ip6_hdr, ip6_plen), IP6 + UDP);
	make_field(&udp_length, offsetof(struct udphdr, uh_ulen), UDP);
	crc_multiples(masked, crc_power(-8 * BTH_MASKED_BYTE));
	for (uint32_t b = 0; b < 256; b++)
		masked_byte[b] = masked[b ^ 0xff];
	make_powers(back_low, ARRAY_SIZE(back_low), crc_power(-8));
	make_powers(back_high, ARRAY_SIZE(back_high), crc_power(-8 * 256));
}

void icrc_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, icrc_make_tables);
}

static inline uint32_t field(const struct field *f, uint16_t value)
{
	return f->high[value >> 8] ^ f->low[value & 0xff];
}

/* Sums over headers with 0 in length and identification, and ones in the fields that routers may change. */

static uint32_t sum_ip4(uint32_t sum, const uint8_t saddr[16], const uint8_t daddr[16])
{
	struct ip ip = {
		.ip_v = 4,
		.ip_hl = sizeof(ip) / 4,
		.ip_tos = 0xff,
		.ip_off = htons(IP_DF),
		.ip_ttl = 0xff,
		.ip_p = IPPROTO_UDP,
		.ip_sum = 0xffff,
	};

	memcpy(&ip.ip_src, saddr + 12, 4);
	memcpy(&ip.ip_dst, daddr + 12, 4);
	return crc(sum, &ip, sizeof(ip));
}

static uint32_t sum_ip6(uint32_t sum, const uint8_t saddr[16], const uint8_t daddr[16])
{
	struct ip6_hdr ip = {
		.ip6_flow = htonl(0x6fffffff), /* version 6, traffic class and flow label */
		.ip6_nxt = IPPROTO_UDP,
		.ip6_hlim = 0xff,
	};

	memcpy(&ip.ip6_src, saddr, 16);
	memcpy(&ip.ip6_dst, daddr, 16);
	return crc(sum, &ip, sizeof(ip));
}

void icrc_flow_init(struct icrc_flow *flow, const uint8_t saddr[16], const uint8_t daddr[16], uint16_t sport,
		    uint16_t dport)
{
	static const uint8_t lrh[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	struct udphdr udp = {.uh_sport = htons(sport), .uh_dport = htons(dport), .uh_sum = 0xffff};
	uint32_t sum;

	icrc_init();
	sum = crc(0, lrh, sizeof(lrh)); /* the link header of InfiniBand, which RoCE does not have */
	flow->is_ipv4 = gid_is_ipv4(daddr);
	sum = flow->is_ipv4 ? sum_ip4(sum, saddr, daddr) : sum_ip6(sum, saddr, daddr);
	flow->crc = crc(sum, &udp, sizeof(udp));
}

uint32_t icrc_before(const struct icrc_flow *flow, uint32_t udp_payload)
{
	uint16_t udp = udp_payload + sizeof(struct udphdr);

	return flow->crc ^ field(&udp_length, udp) ^
	       (flow->is_ipv4 ? field(&ip4_length, udp + sizeof(struct ip)) : field(&ip6_length, udp));
}

uint32_t icrc_continue(const struct icrc_flow *flow, uint32_t before, uint16_t identification, const uint8_t *bytes,
		       size_t n)
{
	uint32_t sum = before ^ masked_byte[bytes[BTH_MASKED_BYTE]];

	assert(n > BTH_MASKED_BYTE);
	if (flow->is_ipv4)
		sum ^= field(&ip4_identification, identification);
	return crc(sum, bytes, n);
}

/* Moves the difference back to the four bytes of identification and flags, of which only the identification may
 * differ. */
int icrc_identification(uint32_t difference, size_t length, uint16_t guess)
{
	size_t after = sizeof(struct ip) + sizeof(struct udphdr) - offsetof(struct ip, ip_id) + length - ICRC_BYTES;
	uint32_t back = crc_multiply(back_low[after % 256], back_high[after / 256]);
	uint32_t change = crc_multiply(difference, back); /* first byte in the low bits */

	if (change >> 16)
		return -EBADMSG;
	return guess ^ (change & 0xff) << 8 ^ change >> 8;
}

static bool is_length(size_t length)
{
	return length >= sizeof(struct bth) + ICRC_BYTES && length <= UINT16_MAX - sizeof(struct udphdr);
}

/* The XOR of the received ICRC and the right one. */
static uint32_t difference_of(const struct icrc_flow *flow, uint32_t before, const uint8_t *bytes, size_t length,
			      uint16_t identification)
{
	uint32_t sent;

	memcpy(&sent, bytes + length - ICRC_BYTES, ICRC_BYTES);
	return le32toh(sent) ^ icrc_continue(flow, before, identification, bytes, length - ICRC_BYTES);
}

bool icrc_is_right(const struct icrc_flow *flow, const uint8_t *bytes, size_t length, uint16_t identification)
{
	return is_length(length) && !difference_of(flow, icrc_before(flow, length), bytes, length, identification);
}

int icrc_check_from(const struct icrc_flow *flow, uint32_t before, const uint8_t *bytes, size_t length, uint16_t guess)
{
	uint32_t difference = difference_of(flow, before, bytes, length, guess);

	if (likely(!difference))
		return flow->is_ipv4 ? guess : 0;
	return flow->is_ipv4 ? icrc_identification(difference, length, guess) : -EBADMSG;
}

int icrc_check(const struct icrc_flow *flow, const uint8_t *bytes, size_t length, uint16_t guess)
{
	if (unlikely(!is_length(length)))
		return -EBADMSG;
	return icrc_check_from(flow, icrc_before(flow, length), bytes, length, guess);
}

/* ---- lengths ---- */

/* The effect of the length fields on the ICRC, by is_ipv4 and the length of the packet in words of 4 bytes. */
static uint32_t scan_length[2][ICRC_SCAN_MOST / 4 + 1];
static_assert(ICRC_SCAN_MOST == 4096 + PACKET_HEADERS + PACKET_TRAILER, "the longest packet");

static void make_scan_lengths(void)
{
	uint32_t power = crc_power(8 * (ICRC_SCAN_LEAST - ICRC_BYTES)), word = crc_power(8 * 4);

	for (uint32_t length = ICRC_SCAN_LEAST; length <= ICRC_SCAN_MOST; length += 4) {
		uint16_t udp = length + sizeof(struct udphdr);
		uint32_t sum = field(&udp_length, udp);

		scan_length[false][length / 4] = crc_multiply(sum ^ field(&ip6_length, udp), power);
		scan_length[true][length / 4] = crc_multiply(sum ^ field(&ip4_length, udp + sizeof(struct ip)), power);
		power = crc_multiply(power, word);
	}
}

void icrc_scan_start(struct icrc_scan *scan, const struct icrc_flow *flow, const uint8_t *bytes,
		     uint16_t identification)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint32_t sum = flow->crc ^ masked_byte[bytes[BTH_MASKED_BYTE]];

	pthread_once(&once, make_scan_lengths);
	if (flow->is_ipv4)
		sum ^= field(&ip4_identification, identification);
	scan->flow = flow;
	scan->bytes = bytes;
	scan->length = ICRC_SCAN_LEAST - 4;
	scan->sum = crc(sum, bytes, scan->length - ICRC_BYTES);
}

uint32_t icrc_scan_next(struct icrc_scan *scan)
{
	const uint8_t *end = scan->bytes + scan->length;
	uint32_t sent;

	memcpy(&sent, end, ICRC_BYTES);
	scan->sum = crc(scan->sum, end - ICRC_BYTES, 4);
	scan->length += 4;
	assert(scan->length <= ICRC_SCAN_MOST);
	return le32toh(sent) ^ scan->sum ^ scan_length[scan->flow->is_ipv4][scan->length / 4];
}
