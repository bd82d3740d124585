/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/packet_filter.h"

#include <endian.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <string.h>

#include "base/base.h"
#include "base/qpn.h"
#include "link/netif.h"
#include "wire/packet.h"

#define ALL	  0x40000u
#define IPV4_HEAD 0x45 /* version, and length without options */
#define QPN_SLOT  5u   /* in the BTH: the first two bytes of the QPN */

/* Offsets in an IP packet. */
enum {
	V4_FRAGMENT = 6,
	V4_PROTOCOL = 9,
	V4_TO = 16,
	V4_HEADER = 20,
	V6_NEXT = 6,
	V6_TO = 24,
	V6_HEADER = 40,
	UDP_TO = 2,
	UDP_HEADER = 8
};

struct program {
	struct sock_filter *out;
	uint16_t n;
	uint16_t yes; /* the verdict where all tests pass */
};

static void filter_add(struct program *p, uint16_t code, uint32_t k)
{
	p->out[p->n++] = (struct sock_filter){.code = code, .k = k};
}

/* A jump to the last instruction, the verdict where a test fails; filter_end() says where that is. */
#define FAIL_JUMP 0xff

static void filter_want(struct program *p, uint16_t load, uint32_t at, uint32_t value)
{
	filter_add(p, load, at);
	p->out[p->n++] = (struct sock_filter){.code = BPF_JMP | BPF_JEQ | BPF_K, .jf = FAIL_JUMP, .k = value};
}

static void filter_want_no_bits(struct program *p, uint16_t load, uint32_t at, uint32_t bits)
{
	filter_add(p, load, at);
	p->out[p->n++] = (struct sock_filter){.code = BPF_JMP | BPF_JSET | BPF_K, .jt = FAIL_JUMP, .k = bits};
}

static uint16_t filter_end(struct program *p, uint32_t passed, uint32_t failed)
{
	uint16_t last;

	filter_add(p, BPF_RET | BPF_K, passed);
	last = p->n;
	filter_add(p, BPF_RET | BPF_K, failed);
	for (uint16_t i = 0; i < last; i++) {
		if (p->out[i].jt == FAIL_JUMP)
			p->out[i].jt = (uint8_t)(last - i - 1);
		if (p->out[i].jf == FAIL_JUMP)
			p->out[i].jf = (uint8_t)(last - i - 1);
	}
	return p->n;
}

#define BYTE (BPF_LD | BPF_B | BPF_ABS)
#define HALF (BPF_LD | BPF_H | BPF_ABS)
#define WORD (BPF_LD | BPF_W | BPF_ABS)

static uint32_t word_at(const uint8_t *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof(word));
	return be32toh(word);
}

/* One of those slots. */
static void want_slot(struct program *p, uint32_t at, const uint16_t *slots, uint32_t count)
{
	filter_add(p, HALF, at);
	filter_add(p, BPF_ALU | BPF_RSH | BPF_K, 16 - SLOT_BITS);
	for (uint32_t i = 0; i < count; i++)
		p->out[p->n++] = (struct sock_filter){.code = BPF_JMP | BPF_JEQ | BPF_K,
						      .jt = (uint8_t)(count - 1 - i),
						      .jf = i == count - 1 ? FAIL_JUMP : 0,
						      .k = slots[i]};
}

/* Frames with a tag are a VLAN's, but for those of VLAN 0, whose tag is no more than a priority. */
static void want_no_vlan(struct program *p)
{
	filter_add(p, WORD, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT));
	p->out[p->n++] = (struct sock_filter){.code = BPF_JMP | BPF_JEQ | BPF_K, .jt = 2, .k = 0};
	filter_want_no_bits(p, WORD, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG), 0xfff);
}

static uint32_t want_ip(struct program *p, const union ibv_gid *to)
{
	if (address_is_ipv4(to)) {
		filter_want(p, HALF, ETH_HLEN - 2, ETH_P_IP);
		filter_want(p, BYTE, ETH_HLEN, IPV4_HEAD);
		filter_want_no_bits(p, HALF, ETH_HLEN + V4_FRAGMENT, IP_MF | IP_OFFMASK);
		filter_want(p, BYTE, ETH_HLEN + V4_PROTOCOL, IPPROTO_UDP);
		filter_want(p, WORD, ETH_HLEN + V4_TO, word_at(to->raw + 12));
		return ETH_HLEN + V4_HEADER;
	}
	filter_want(p, HALF, ETH_HLEN - 2, ETH_P_IPV6);
	filter_want(p, BYTE, ETH_HLEN + V6_NEXT, IPPROTO_UDP);
	for (uint32_t i = 0; i < 16; i += 4)
		filter_want(p, WORD, ETH_HLEN + V6_TO + i, word_at(to->raw + i));
	return ETH_HLEN + V6_HEADER;
}

uint16_t packet_filter_ring(const union ibv_gid *to, const uint16_t *slots, uint32_t count,
			    struct sock_filter out[PACKET_FILTER_LENGTH])
{
	struct program p = {.out = out};
	uint32_t udp;

	filter_want(&p, WORD, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE), PACKET_HOST);
	want_no_vlan(&p);
	udp = want_ip(&p, to);
	filter_want(&p, HALF, udp + UDP_TO, ROCE_PORT);
	want_slot(&p, udp + UDP_HEADER + QPN_SLOT, slots, count);
	return filter_end(&p, ALL, 0);
}

/* The packet begins at the UDP header; the IP header is at SKF_NET_OFF. */
uint16_t packet_filter_socket(bool is_ipv4, int netif, const uint16_t *slots, uint32_t count,
			      struct sock_filter out[PACKET_FILTER_LENGTH])
{
	struct program p = {.out = out};

	filter_want(&p, WORD, (uint32_t)(SKF_AD_OFF + SKF_AD_IFINDEX), (uint32_t)netif);
	filter_want(&p, WORD, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE), PACKET_HOST);
	if (is_ipv4)
		filter_want(&p, BYTE, (uint32_t)SKF_NET_OFF, IPV4_HEAD);
	else
		filter_want(&p, BYTE, (uint32_t)(SKF_NET_OFF + V6_NEXT), IPPROTO_UDP);
	want_slot(&p, UDP_HEADER + QPN_SLOT, slots, count);
	return filter_end(&p, 0, ALL);
}
