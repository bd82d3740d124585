/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the captures in tests/vectors: each RoCEv2 packet of a classic pcap file over Ethernet. */
#ifndef UROCE_TEST_CAPTURE_H
#define UROCE_TEST_CAPTURE_H

#include "base/base.h"

struct captured {
	const char *file;
	uint8_t saddr[16], daddr[16]; /* as GIDs */
	uint16_t sport, dport;
	bool is_ipv4;
	uint16_t identification;
	size_t length; /* from the BTH on, ICRC included */
	uint8_t bytes[9000];
	const uint8_t *frame; /* all of it, from the Ethernet header on, until see() returns */
	size_t frame_length;
};

/* Calls see() for each RoCEv2 packet in all captures that we have; returns their number, -1 if a file is not
 * what we can read. */
int captured_everywhere(void (*see)(const struct captured *c));

#endif
