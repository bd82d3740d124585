/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/show.h"

#include <sys/mman.h>

#include "memory/share.h"
#include "memory/shareable.h"
#include "object/hca.h"

void *show_memory(struct hca *hca, size_t length)
{
	void *memory = hca->share ? shareable_new(hca->share->arena, length) : NULL;

	if (memory)
		return memory;
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

void show_settle(struct hca *hca)
{
	/* Without regions no visitor is inside: closing the last one has waited. Sequentially consistent, with the
	 * closing of the QP before: a visitor that entered by that QP saw a region that was counted. */
	if (hca->share && atomic_load_explicit(&hca->regions, memory_order_seq_cst))
		share_settle(hca->share);
}

uint64_t show_closed(struct hca *hca)
{
	return hca->share ? share_closed(hca->share) : 0;
}

bool show_has_settled(struct hca *hca, uint64_t closed)
{
	return !hca->share || share_has_settled(hca->share, closed);
}
