/* SPDX-License-Identifier: BSD-2-Clause */
/* The program makes and destroys regions. Behind hooks_any(). Any thread, without locks. */
#ifndef UROCE_CHECK_REGIONS_H
#define UROCE_CHECK_REGIONS_H

#include <infiniband/verbs.h>

/* A region of this memory is about to be made. */
void check_registers(const void *memory, uint64_t length);
/* The region is about to be destroyed. */
void check_deregisters(const struct ibv_mr *mr);
/* It is about to get other memory, rights or another domain. */
void check_reregisters(const struct ibv_mr *mr);

#endif
