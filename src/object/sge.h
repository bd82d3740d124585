/* Scatter/gather lists: from local keys to bytes. Offsets count from the first byte of the list.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_SGE_H
#define UROCE_SGE_H

#include "object/mr.h"

/* Whether every SGE names memory of the domain with these rights. */
bool sge_allowed(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count, unsigned access);

/* Copies `length` bytes into the list from `offset` on. False: an SGE is not writable memory of the domain (the
 * bytes before it are written). The list is long enough: the caller has checked. */
bool sge_scatter(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count, uint64_t offset,
		 const void *bytes, uint32_t length);

#endif
