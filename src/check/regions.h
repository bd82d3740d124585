/* SPDX-License-Identifier: BSD-2-Clause */
/* Registration and deregistration by the program. Behind hooks_any(). Any thread, without locks. */
#ifndef UROCE_CHECK_REGIONS_H
#define UROCE_CHECK_REGIONS_H

#include <infiniband/verbs.h>

/* Called before memory is registered. `length` in bytes. */
void check_registers(const void *memory, uint64_t length);
/* Called before a region is deregistered. */
void check_deregisters(const struct ibv_mr *mr);
/* Called before a region gets other memory, rights or another domain. */
void check_reregisters(const struct ibv_mr *mr);

#endif
