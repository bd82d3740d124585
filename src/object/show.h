/* SPDX-License-Identifier: BSD-2-Clause */
/* What local peers see of an adapter (memory/share.h): regions (mr.c) and QPs (qp.c) that they can access by one-sided
 * operations. Any thread may call. */
#ifndef UROCE_SHOW_H
#define UROCE_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hca;

/* Allocates memory for regions of uroce itself, which local peers can map if possible. NULL and errno on failure. Free
 * it by munmap(2). */
void *show_memory(struct hca *hca, size_t length);

/* Waits for all accesses that local peers began before regions and QPs were closed. Call it without locks. */
void show_settle(struct hca *hca);
/* show_closed(): number of regions and QPs closed so far. show_has_settled(): true if all accesses that began before
 * `closed` of them were closed are known to be over. */
uint64_t show_closed(struct hca *hca);
bool show_has_settled(struct hca *hca, uint64_t closed);

#endif
