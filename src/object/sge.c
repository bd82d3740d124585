/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/sge.h"

bool sge_allowed(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
		 unsigned access)
{
	for (uint32_t i = 0; i < count; i++) {
		struct mr *mr;

		if (sge[i].length == 0) /* IBTA 10.7.2.1: a key of no bytes is not looked at */
			continue;
		mr = sge_region(hca, pd, &sge[i], access);
		if (!mr)
			return false;
		mr_put(mr);
	}
	return true;
}

bool sge_scatter(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
		 uint64_t offset, const void *bytes, uint32_t length)
{
	struct sge_rest rest = {sge, count, length, offset};
	const char *from = bytes;
	struct ibv_sge part;

	while (sge_next(&rest, &part)) {
		struct mr *mr = sge_region(hca, pd, &part, IBV_ACCESS_LOCAL_WRITE);
		bool ok;

		if (!mr)
			return false;
		ok = mr_write(mr, mr_at(mr, part.addr), from, part.length);
		mr_put(mr);
		if (!ok)
			return false;
		from += part.length;
	}
	return true;
}
