/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/packet_frame.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <string.h>

#include "base/address.h"
#include "wire/packet.h"

#define IPV6_VERSION 6u

static_assert(sizeof(struct ip) == 20 && sizeof(struct ip6_hdr) == 40 && sizeof(struct udphdr) == 8, "no padding");

/* Adds up bytes for the checksum (RFC 1071), a multiple of 4, without folding. */
static inline uint64_t frame_add_up(uint64_t sum, const void *bytes, size_t n)
{
	const uint8_t *b = bytes;

	for (size_t i = 0; i < n; i += 4) {
		uint32_t word;

		memcpy(&word, b + i, 4);
		sum += word;
	}
	return sum;
}

static inline uint16_t frame_fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)(sum + (sum >> 16));
}

/* The checksum of the pseudo header. `addresses`: source and destination, which follow each other in the IP header. */
static uint16_t pseudo_sum(const void *addresses, size_t n, uint32_t udp_bytes)
{
	const uint16_t rest[2] = {htons((uint16_t)udp_bytes), htons(IPPROTO_UDP)};

	return frame_fold(frame_add_up(frame_add_up(0, addresses, n), rest, sizeof(rest)));
}

static uint32_t put_ipv4(const struct packet_frame *f, uint8_t *out)
{
	struct ip ip = {
		.ip_v = IPVERSION,
		.ip_hl = sizeof(ip) / 4,
		.ip_tos = f->traffic_class,
		.ip_len = htons((uint16_t)(sizeof(ip) + sizeof(struct udphdr) + f->bytes)),
		.ip_id = htons(f->identification),
		.ip_off = htons(IP_DF),
		.ip_ttl = f->hops,
		.ip_p = IPPROTO_UDP,
	};

	memcpy(&ip.ip_src, f->from.raw + 12, 4);
	memcpy(&ip.ip_dst, f->to.raw + 12, 4);
	ip.ip_sum = (uint16_t)~frame_fold(frame_add_up(0, &ip, sizeof(ip)));
	memcpy(out, &ip, sizeof(ip));
	return sizeof(ip);
}

static uint32_t put_ipv6(const struct packet_frame *f, uint8_t *out)
{
	struct ip6_hdr ip = {0};

	ip.ip6_flow = htonl(IPV6_VERSION << 28 | (uint32_t)f->traffic_class << 20 | (f->flow_label & 0xfffff));
	ip.ip6_plen = htons((uint16_t)(sizeof(struct udphdr) + f->bytes));
	ip.ip6_nxt = IPPROTO_UDP;
	ip.ip6_hlim = f->hops;
	memcpy(&ip.ip6_src, f->from.raw, 16);
	memcpy(&ip.ip6_dst, f->to.raw, 16);
	memcpy(out, &ip, sizeof(ip));
	return sizeof(ip);
}

uint32_t packet_frame_put(const struct packet_frame *f, enum frame_sum sum, uint8_t *out)
{
	bool is_ipv4 = gid_is_ipv4(f->to.raw);
	uint32_t at = FRAME_ETHERNET, addresses = is_ipv4 ? 8 : 32;
	struct udphdr udp = {.uh_sport = htons(f->port),
			     .uh_dport = htons(ROCE_PORT),
			     .uh_ulen = htons((uint16_t)(sizeof(udp) + f->bytes))};

	at += is_ipv4 ? put_ipv4(f, out + at) : put_ipv6(f, out + at);
	if (sum == FRAME_SUM_PSEUDO)
		udp.uh_sum = pseudo_sum(out + at - addresses, addresses, sizeof(udp) + f->bytes);
	memcpy(out + at, &udp, sizeof(udp));
	return at + sizeof(udp);
}

/* Parses an IPv4 header. Returns its bytes; *length: bytes of the packet. 0: not an acceptable packet. */
static uint32_t parse_ipv4(struct packet_frame *f, const uint8_t *at, uint32_t bytes, uint32_t *length)
{
	struct ip ip;

	if (bytes < sizeof(ip))
		return 0;
	memcpy(&ip, at, sizeof(ip));
	*length = ntohs(ip.ip_len);
	if (ip.ip_v != IPVERSION || ip.ip_hl != sizeof(ip) / 4 || ip.ip_p != IPPROTO_UDP ||
	    ntohs(ip.ip_off) & (IP_MF | IP_OFFMASK) || frame_fold(frame_add_up(0, &ip, sizeof(ip))) != 0xffff)
		return 0;
	gid_set(f->from.raw, true, &ip.ip_src);
	gid_set(f->to.raw, true, &ip.ip_dst);
	f->traffic_class = ip.ip_tos;
	f->hops = ip.ip_ttl;
	f->identification = ntohs(ip.ip_id);
	f->flow_label = 0;
	return sizeof(ip);
}

static uint32_t parse_ipv6(struct packet_frame *f, const uint8_t *at, uint32_t bytes, uint32_t *length)
{
	struct ip6_hdr ip;
	uint32_t flow;

	if (bytes < sizeof(ip))
		return 0;
	memcpy(&ip, at, sizeof(ip));
	*length = sizeof(ip) + ntohs(ip.ip6_plen);
	flow = ntohl(ip.ip6_flow);
	if (flow >> 28 != IPV6_VERSION || ip.ip6_nxt != IPPROTO_UDP)
		return 0;
	memcpy(f->from.raw, &ip.ip6_src, 16);
	memcpy(f->to.raw, &ip.ip6_dst, 16);
	f->traffic_class = (uint8_t)(flow >> 20);
	f->hops = ip.ip6_hlim;
	f->identification = 0;
	f->flow_label = flow & 0xfffff;
	return sizeof(ip);
}

int packet_frame_parse(struct packet_frame *f, const uint8_t *frame, uint32_t bytes)
{
	uint32_t length = 0, header;
	struct udphdr udp;
	uint16_t type;

	if (bytes < FRAME_ETHERNET)
		return -EBADMSG;
	memcpy(&type, frame + FRAME_ETHERNET - sizeof(type), sizeof(type));
	frame += FRAME_ETHERNET;
	bytes -= FRAME_ETHERNET;
	header = ntohs(type) == ETHERTYPE_IP	 ? parse_ipv4(f, frame, bytes, &length)
		 : ntohs(type) == ETHERTYPE_IPV6 ? parse_ipv6(f, frame, bytes, &length)
						 : 0;
	/* a short frame has been padded */
	if (!header || length > bytes || length < header + sizeof(udp))
		return -EBADMSG;
	memcpy(&udp, frame + header, sizeof(udp));
	if (ntohs(udp.uh_dport) != ROCE_PORT || ntohs(udp.uh_ulen) != length - header)
		return -EBADMSG;
	f->port = ntohs(udp.uh_sport);
	f->payload = frame + header + sizeof(udp);
	f->bytes = length - header - (uint32_t)sizeof(udp);
	return 0;
}
