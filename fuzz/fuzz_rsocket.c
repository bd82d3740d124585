/* SPDX-License-Identifier: BSD-2-Clause */
/* What peers say in rsockets' words: private data of a connection, and the headers of datagrams. Reading them stays
 * within them, and what is found is no longer than they are. The first byte says which. Seeds: corpus/rsocket, made by
 * rsocket-seeds.py. */
#include <stdlib.h>
#include <string.h>

#include "require.h"
#include "rsocket/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_connect(const uint8_t *data, size_t size)
{
	struct rs_peer peer;

	if (rs_read_connect(&peer, data, size))
		return;
	require(size >= sizeof(struct rs_connect) && peer.targets.length);
	require(peer.credits <= UINT16_MAX && peer.iomaps <= rs_unscale(UINT8_MAX));
}

static void read_udp_header(const uint8_t *data, size_t size)
{
	struct rs_udp_header h;

	if (rs_read_udp_header(&h, data, size))
		require(h.length <= size && (h.version == 4 || h.length == sizeof(h)));
}

static void read_header(const uint8_t *data, size_t size)
{
	struct rs_header h;

	if (rs_read_header(&h, data, size))
		require(h.length <= size && (h.version == 4 || h.length == sizeof(h)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const readers[])(const uint8_t *data, size_t size) = {read_connect, read_udp_header, read_header};
	uint8_t *copy;

	if (!size)
		return 0;
	copy = malloc(size); /* of just what follows, for the sanitizer */
	memcpy(copy, data + 1, size - 1);
	readers[data[0] % ARRAY_SIZE(readers)](copy, size - 1);
	free(copy);
	return 0;
}
