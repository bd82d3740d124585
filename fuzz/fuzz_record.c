/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as a record of the local link, or as a greeting: what is accepted lies within them. */
#include <stdlib.h>
#include <string.h>

#include "link/record.h"
#include "link/ring.h"
#include "host/introduction.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_record(const uint8_t *data, uint32_t size)
{
	const union ibv_gid *from = NULL;
	struct packet p;

	if (record_get(data, size, &p, &from))
		return;
	require(p.payload >= data && p.payload + packet_carries(&p) <= data + size);
	require(opcode_info[p.opcode].name && p.dest_qpn <= QPN_MASK && record_bytes(&p) == size);
	require(!from == !(opcode_info[p.opcode].flags & HAS_DETH));
}

static void check_greeting(const uint8_t *data, size_t size)
{
	struct greeting g;
	int fd[GREETING_FDS];

	for (int fds = 0; fds < 1 << GREETING_FDS; fds++) {
		for (int i = 0; i < GREETING_FDS; i++)
			fd[i] = fds & 1 << i ? i : -1;
		if (greeting_check(data, size, fd))
			continue;
		memcpy(&g, data, sizeof(g));
		require(size == sizeof(g) && g.slot > 0 && g.slot < 256 && fd[GREETING_RING] >= 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = aligned_alloc(CACHE_LINE, ring_round(size + 1));

	require(copy);
	memcpy(copy, data, size);
	check_record(copy, size);
	check_greeting(copy, size);
	free(copy);
	return 0;
}
