/* SPDX-License-Identifier: BSD-2-Clause */
/* Registration of memory regions of each kind. */
#ifndef UROCE_VERBS_MR_H
#define UROCE_VERBS_MR_H

#include "object/mr.h"

/* 0 or errno. */
int mr_check_access(unsigned access);

/* Registers a region and counts it in its domain and device. NULL and errno ENOMEM. */
struct mr *mr_add(struct pd *pd, void *memory, size_t length, uint64_t iova, unsigned access);
struct mr *mr_add_kind(struct pd *pd, void *memory, size_t length, uint64_t iova, unsigned access,
		       enum memory_kind kind, union memory_handle handle);

/* Registers memory of a GPU: 0 or errno; *made is NULL if the memory is of no GPU. */
int mr_add_gpu(struct mr **made, struct pd *pd, void *address, size_t length, uint64_t iova, unsigned access);

#endif
