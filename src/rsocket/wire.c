/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/wire.h"

#include <errno.h>
#include <string.h>

static struct rs_sge sge_of(struct rs_sge_be b)
{
	return (struct rs_sge){from_be64(b.address), from_be32(b.key), from_be32(b.length)};
}

int rs_read_connect(struct rs_peer *to, const void *data, size_t length)
{
	struct rs_connect from;

	if (length < sizeof(from))
		return -EPROTO;
	memcpy(&from, data, sizeof(from));
	*to = (struct rs_peer){
		.targets = sge_of(from.targets),
		.buffer = sge_of(from.buffer),
		.credits = from_be16(from.credits),
		.iomaps = from.flags & RS_FLAG_IOMAP ? rs_unscale(from.iomap_scale) : 0,
		.big_endian = from.flags & RS_FLAG_BIG_ENDIAN,
	};
	return from.version == RS_VERSION && to->targets.length ? 0 : -EPROTO;
}

static void read_start(void *to, size_t size, const void *data, size_t length)
{
	memset(to, 0, size);
	memcpy(to, data, min_of(length, size));
}

bool rs_read_udp_header(struct rs_udp_header *h, const void *data, size_t length)
{
	read_start(h, sizeof(*h), data, length);
	return from_be32(h->tag) == RS_UDP_TAG && length >= h->length &&
	       ((h->version == 4 && h->length == RS_UDP_V4_BYTES) ||
		(h->version == 6 && h->length == RS_UDP_V6_BYTES)) &&
	       (h->op == RS_OP_DATA || h->op == RS_OP_CONTROL);
}

bool rs_read_header(struct rs_header *h, const void *data, size_t length)
{
	read_start(h, sizeof(*h), data, length);
	return length >= h->length &&
	       ((h->version == 4 && h->length == RS_V4_BYTES) || (h->version == 6 && h->length == RS_V6_BYTES));
}
