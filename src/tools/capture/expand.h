/* SPDX-License-Identifier: BSD-2-Clause */
/* The packets that a record of a capture stands for: itself; several where a packet by shared memory is too long for an
 * IP packet; those of a one-sided operation. */
#ifndef UROCE_TOOLS_CAPTURE_EXPAND_H
#define UROCE_TOOLS_CAPTURE_EXPAND_H

#include "base/capture_file.h"
#include "wire/packet.h"

struct expanded {
	const struct packet *packet;
	const uint8_t *payload;
	uint32_t captured; /* bytes of the payload that are known */
	bool inbound;
	uint32_t number, of; /* piece `number` of so many */
};
typedef void expand_take(void *arg, const struct expanded *e);

/* The bytes are another process's: false, and nothing was taken, if they make no sense. */
bool expand_packet(const struct capture_packet *c, expand_take *take, void *arg);
bool expand_onesided(const struct capture_onesided *c, expand_take *take, void *arg);

#endif
