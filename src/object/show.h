/* SPDX-License-Identifier: BSD-2-Clause */
/* Publishes regions and QPs to local peers (memory/share.h), so that they can access them by one-sided operations. */
#ifndef UROCE_SHOW_H
#define UROCE_SHOW_H

#include "object/mr.h"
#include "object/qp.h"

/* Publish a region; withdraw it: hide_region() waits until no local peer is inside. */
void show_region(struct mr *mr);
void hide_region(struct mr *mr);
/* Withdraw a region for a while, then publish it with a new key. Does not wait: see show_settle(). */
void suspend_region(struct mr *mr);
void resume_region(struct mr *mr);

/* Allocates memory for regions of uroce itself, which local peers can map if possible; free it by munmap(2). NULL and
 * errno. */
void *show_memory(struct hca *hca, size_t length);

/* Call it when anything changes that decides whether the peer of the QP may access memory by one-sided operations. */
void show_qp(struct qp *qp); /* under its lock */

/* Waits for all accesses that local peers began before regions and QPs were closed. Call it without locks. */
void show_settle(struct hca *hca);
/* show_closed(): number of regions and QPs closed so far. show_has_settled(): true if all accesses that began before
 * `closed` of them were closed are known to be over. */
uint64_t show_closed(struct hca *hca);
bool show_has_settled(struct hca *hca, uint64_t closed);

#endif
