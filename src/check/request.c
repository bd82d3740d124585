/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/request.h"

#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "base/msan.h"

bool brings_bytes(unsigned opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

bool sends_bytes(unsigned opcode)
{
	return !brings_bytes(opcode) && opcode != IBV_WR_BIND_MW && opcode != IBV_WR_LOCAL_INV;
}

struct request *request_make(const struct stack *posted, uint64_t wr_id, const struct ibv_sge *sge, int sges)
{
	uint32_t count = (uint32_t)sges, all = msan_is_there() ? count : 0;
	struct request *r = calloc(1, sizeof(*r) + all * sizeof(*sge));

	if (!r)
		return NULL;
	r->all_sges = all;
	r->all = (struct ibv_sge *)(r + 1);
	r->sges = (uint8_t)min_of(count, (uint32_t)REQUEST_SGES);
	if (all)
		memcpy(r->all, sge, all * sizeof(*sge));
	if (count)
		memcpy(r->sge, sge, r->sges * sizeof(*sge));
	r->posted = posted;
	r->wr_id = wr_id;
	return r;
}

bool request_overlaps(const struct request *r, const struct ibv_sge *sge, int sges)
{
	for (int i = 0; i < r->sges; i++)
		for (int k = 0; k < sges; k++)
			if (r->sge[i].addr < sge[k].addr + sge[k].length &&
			    sge[k].addr < r->sge[i].addr + r->sge[i].length)
				return true;
	return false;
}

bool requests_overlap(const struct request *a, const struct request *b)
{
	return request_overlaps(a, b->sge, b->sges);
}
