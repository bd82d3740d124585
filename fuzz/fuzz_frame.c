/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as an Ethernet frame: what is accepted lies within it, and the headers that are made from it say the same
 * again. Seeds: frames of the captures, by frame-seeds.py. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "require.h"
#include "wire/packet_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_again(const struct packet_frame *f, const uint8_t *frame)
{
	uint8_t *out;
	struct packet_frame again;
	uint32_t headers = (uint32_t)(f->payload - frame);

	out = calloc(1, headers + (size_t)f->bytes);
	require(out);
	memcpy(out, frame, FRAME_ETHERNET);
	require(packet_frame_put(f, FRAME_SUM_PSEUDO, out) == headers);
	require(!packet_frame_parse(&again, out, headers + f->bytes));
	require(again.bytes == f->bytes && again.port == f->port && again.hops == f->hops &&
		again.identification == f->identification && again.traffic_class == f->traffic_class &&
		again.flow_label == f->flow_label && !memcmp(&again.from, &f->from, sizeof(f->from)));
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size + !size); /* so that a look beyond the end is seen */
	struct packet_frame f;

	require(exact);
	memcpy(exact, data, size);
	if (!packet_frame_parse(&f, exact, (uint32_t)size)) {
		require(f.payload >= exact && f.payload + f.bytes <= exact + size);
		/* an IPv6 packet between mapped addresses would be written as IPv4 */
		if (packet_frame_headers(true) == f.payload - exact || f.to.raw[10] != 0xff)
			write_again(&f, exact);
	}
	free(exact);
	return 0;
}
