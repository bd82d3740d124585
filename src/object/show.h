/* SPDX-License-Identifier: BSD-2-Clause */
/* What local peers on this host see of regions and QPs (memory/share.h), so that they can reach them by themselves. */
#ifndef UROCE_SHOW_H
#define UROCE_SHOW_H

#include "object/mr.h"
#include "object/qp.h"

/* A region is open; and it is not any more: waits until no local peer is inside. */
void show_region(struct mr *mr);
void hide_region(struct mr *mr);
/* It is not open for a while, and then by another key. Does not wait: see show_settle(). */
void suspend_region(struct mr *mr);
void resume_region(struct mr *mr);

/* Memory for regions of our own, which local peers can map if possible; munmap(2) gives it back. NULL and errno. */
void *show_memory(struct hca *hca, size_t length);

/* To be called when anything of it has changed that decides whether its peer may read and write by itself. */
void show_qp(struct qp *qp); /* with its lock, as all of the engine */

/* What local peers began before regions and QPs were closed is over. Without locks. */
void show_settle(struct hca *hca);
/* How many have been closed so far; and whether what was begun before that is known to be over. */
uint64_t show_closed(struct hca *hca);
bool show_has_settled(struct hca *hca, uint64_t closed);

#endif
