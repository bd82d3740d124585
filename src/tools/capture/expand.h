/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of a captured record: usually one; several for a packet by shared memory that is too long for IP; the
 * equivalent ones of a one-sided operation. */
#ifndef UROCE_TOOLS_CAPTURE_EXPAND_H
#define UROCE_TOOLS_CAPTURE_EXPAND_H

#include "base/capture_file.h"
#include "wire/packet.h"

struct expanded {
	const struct packet *packet;
	const uint8_t *payload;
	uint32_t captured; /* bytes of payload that were captured */
	bool inbound;
	uint32_t number, of; /* piece `number` of `of` */
};
typedef void expand_take(void *arg, const struct expanded *e);

/* Calls take() for each packet. False, without a call, if the record is invalid (its bytes are another process's). */
bool expand_packet(const struct capture_packet *c, expand_take *take, void *arg);
bool expand_onesided(const struct capture_onesided *c, expand_take *take, void *arg);

#endif
