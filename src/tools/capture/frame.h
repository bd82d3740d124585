/* SPDX-License-Identifier: BSD-2-Clause */
/* The Ethernet frame of a captured packet: Ethernet, IP, UDP, BTH, payload, ICRC. Fields that a socket does not show
 * are made up: Ethernet addresses from the IP addresses, the UDP source port from the path, an identification of 0. */
#ifndef UROCE_TOOLS_CAPTURE_FRAME_H
#define UROCE_TOOLS_CAPTURE_FRAME_H

#include "base/capture_file.h"
#include "wire/packet.h"

#define FRAME_HEADERS (14 + 40 + 8)
#define FRAME_PAYLOAD 65000u /* max bytes of payload in an IP packet; longer ones are split */
#define FRAME_BYTES   (FRAME_HEADERS + PACKET_HEADERS + FRAME_PAYLOAD + PACKET_TRAILER)

/* First bytes of a frame, and its length. */
struct frame {
	uint32_t captured, length;
	uint8_t bytes[FRAME_BYTES];
};

/* Builds the frame. `headers`: from the BTH on. `payload`: the first `captured` of `length` bytes, length <=
 * FRAME_PAYLOAD. */
void frame_build(struct frame *f, const struct capture_path *path, const uint8_t *headers, uint32_t header_bytes,
		 const uint8_t *payload, uint32_t captured, uint32_t length);

#endif
