/* SPDX-License-Identifier: BSD-2-Clause */
/* The invariant CRC at the end of every RoCEv2 packet: CRC-32 over the IP header, the UDP header and all that follows,
 * with the fields that routers may change taken as ones (IBTA 7.8.1 and annex A17).
 *
 * The ICRC of an IPv4 packet covers the identification, which a UDP socket can neither choose nor read. Sent from an
 * unconnected socket with IP_PMTUDISC_DO, it is 0, and with UDP_SEGMENT the index of the segment; from a connected
 * socket, see link/udp_way.c. For a received packet, it is computed from the ICRC: see icrc_check().
 *
 * A flow is constant once initialised: any number of threads may use it. */
#ifndef UROCE_ICRC_H
#define UROCE_ICRC_H

#include <endian.h>
#include <string.h>

#include "wire/crc.h"

#define ICRC_BYTES 4

/* The common part of the ICRCs of all packets between two UDP addresses. */
struct icrc_flow {
	uint32_t crc; /* CRC over the headers before the BTH, with lengths and identification 0 */
	bool is_ipv4;
};

/* Makes the tables and selects the CRC engine, once: takes up to a millisecond, so it is done before the first
 * packet. */
void icrc_init(void);

/* Initialises a flow. Addresses as GIDs: IPv4 is ::ffff:a.b.c.d. Ports in host byte order. */
void icrc_flow_init(struct icrc_flow *flow, const uint8_t saddr[16], const uint8_t daddr[16], uint16_t sport,
		    uint16_t dport);

/* The CRC over all headers before the BTH of packets of one length: `udp_payload` bytes from the BTH on, ICRC included.
 * The identification is taken as 0, and the byte of the BTH that is masked is not. */
uint32_t icrc_before(const struct icrc_flow *flow, uint32_t udp_payload);
/* Continues that with the first n bytes from the BTH on, n > 4. `identification`: of the IPv4 header. */
uint32_t icrc_continue(const struct icrc_flow *flow, uint32_t before, uint16_t identification, const uint8_t *bytes,
		       size_t n);

static inline uint32_t icrc_start(const struct icrc_flow *flow, uint16_t identification, uint32_t udp_payload,
				  const uint8_t *bytes, size_t n)
{
	return icrc_continue(flow, icrc_before(flow, udp_payload), identification, bytes, n);
}

/* Continues the CRC with n more bytes: payload, pad. */
static inline uint32_t icrc_add(uint32_t icrc, const void *bytes, size_t n)
{
	return crc(icrc, bytes, n);
}

/* Stores the finished ICRC: least significant byte first. */
static inline void icrc_put(uint8_t at[ICRC_BYTES], uint32_t icrc)
{
	icrc = htole32(icrc);
	memcpy(at, &icrc, ICRC_BYTES);
}

/* Checks the ICRC of a received packet: `bytes` from the BTH on, ICRC included. Returns the IPv4 identification that it
 * was sent with (0 for IPv6), or -EBADMSG. A wrong `guess` costs about 50 ns. Of packets corrupted at random, one in
 * 2^32 passes with IPv6, one in 2^16 with IPv4. */
int icrc_check(const struct icrc_flow *flow, const uint8_t *bytes, size_t length, uint16_t guess);
/* The same of a packet of at least ICRC_SCAN_LEAST bytes, with icrc_before() of that length. */
int icrc_check_from(const struct icrc_flow *flow, uint32_t before, const uint8_t *bytes, size_t length, uint16_t guess);

/* The same with a known identification. Of packets corrupted at random, one in 2^32 passes. */
bool icrc_is_right(const struct icrc_flow *flow, const uint8_t *bytes, size_t length, uint16_t identification);

/* Finds the end of a packet of unknown length: one pass over its bytes tries every length that is a multiple of 4. Each
 * step costs a CRC of 4 bytes. */
struct icrc_scan {
	const struct icrc_flow *flow;
	const uint8_t *bytes;
	uint32_t length; /* the length that the last step tried */
	uint32_t sum;
};
#define ICRC_SCAN_LEAST 16u   /* bytes of the first length: BTH and ICRC */
#define ICRC_SCAN_MOST	4168u /* bytes of the last length: MTU 4096, headers, pad and ICRC */

void icrc_scan_start(struct icrc_scan *scan, const struct icrc_flow *flow, const uint8_t *bytes,
		     uint16_t identification);
/* Tries the next length. Returns the difference (XOR) between the ICRC at that end and the right one; 0: right. */
uint32_t icrc_scan_next(struct icrc_scan *scan);

/* The IPv4 identification that explains this difference, which was found with `guess`; or -EBADMSG. */
int icrc_identification(uint32_t difference, size_t length, uint16_t guess);

#endif
