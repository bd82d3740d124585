/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/sge.h"

bool sge_allowed(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count, unsigned access)
{
	for (uint32_t i = 0; i < count; i++) {
		struct mr *mr;

		if (sge[i].length == 0) /* IBTA 10.7.2.1: the key of an SGE of length 0 is not checked */
			continue;
		mr = sge_region(hca, pd, &sge[i], access);
		if (!mr)
			return false;
		mr_put(mr);
	}
	return true;
}

bool sge_scatter(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count, uint64_t offset,
		 const void *bytes, uint32_t length)
{
	struct sge_rest rest = {sge, count, length, offset};
	const char *from = bytes;
	struct ibv_sge part;

	for (; sge_next(&rest, &part); from += part.length)
		if (!sge_store(hca, pd, &part, from, part.length))
			return false;
	return true;
}
