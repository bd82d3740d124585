/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/sack.h"

#include <string.h>

#include "base/be.h"

bool sack_parse(struct sack *s, const uint8_t *payload, uint32_t length)
{
	be32 first;

	if (length <= sizeof(first) || length > SACK_PAYLOAD || length % 4)
		return false;
	memcpy(&first, payload, sizeof(first));
	*s = (struct sack){psn(from_be32(first)), 8 * (length - (uint32_t)sizeof(first)), payload + sizeof(first)};
	return true;
}

uint32_t sack_begin(uint8_t payload[SACK_PAYLOAD], psn_t first, uint32_t count)
{
	uint32_t length = 4 + (count + 31) / 32 * 4;
	be32 at = to_be32(first.v);

	memset(payload, 0, length);
	memcpy(payload, &at, sizeof(at));
	return length;
}
