/* What neighbours on this host see of regions and QPs (memory/share.h), so that they can reach them by themselves.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_SHOW_H
#define UROCE_SHOW_H

#include "object/mr.h"
#include "object/qp.h"

/* A region is open; and it is not any more: waits until no neighbour is inside. */
void show_region(struct mr *mr);
void hide_region(struct mr *mr);

/* Memory for regions of our own, which neighbors can map if possible; munmap(2) gives it back. NULL and errno. */
void *show_memory(struct hca *hca, size_t length);

/* To be called when anything of it has changed that decides whether its peer may read and write by itself. */
void show_qp(struct qp *qp); /* with its lock, as all of the engine */

/* What the peers of QPs that have been closed began before is over. Without locks. */
void show_settle(struct hca *hca);

#endif
