/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/sge.h"

bool sge_allowed(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
		 unsigned access)
{
	bool ok = true;

	for (uint32_t i = 0; ok && i < count; i++) {
		struct mr *mr;

		if (sge[i].length == 0) /* IBTA 10.7.2.1: a key of no bytes is not looked at */
			continue;
		mr = mr_get(hca, sge[i].lkey);
		ok = mr && mr_allows(mr, pd, sge[i].addr, sge[i].length, access | MR_LOCAL);
		if (mr)
			mr_put(mr);
	}
	return ok;
}

bool sge_scatter(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
		 uint64_t offset, const void *bytes, uint32_t length)
{
	const char *from = bytes;

	for (uint32_t i = 0; length && i < count; i++) {
		struct mr *mr;
		uint32_t n;
		bool ok;

		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		n = min_of(length, (uint32_t)(sge[i].length - offset));
		mr = mr_get(hca, sge[i].lkey);
		ok = mr && mr_allows(mr, pd, sge[i].addr + offset, n, IBV_ACCESS_LOCAL_WRITE | MR_LOCAL);
		ok = ok && mr_write(mr, mr_at(mr, sge[i].addr + offset), from, n);
		if (mr)
			mr_put(mr);
		if (!ok)
			return false;
		from += n;
		length -= n;
		offset = 0;
	}
	return true;
}
