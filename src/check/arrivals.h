/* SPDX-License-Identifier: BSD-2-Clause */
/* Arriving packets: the requests that they are for, and the memory that they are stored in. The engine calls, with
 * qp->lock held. */
#ifndef UROCE_CHECK_ARRIVALS_H
#define UROCE_CHECK_ARRIVALS_H

/* Registers with the engine. Before HOOK_CHECK is set. */
void arrivals_start(void);

#endif
