/* SPDX-License-Identifier: BSD-2-Clause */
/* What arrives at queue pairs: the requests that it is for, and the memory that it is stored in. The engine calls, with
 * qp->lock held. */
#ifndef UROCE_CHECK_ARRIVALS_H
#define UROCE_CHECK_ARRIVALS_H

/* Starts listening to the engine. Before HOOK_CHECK. */
void arrivals_start(void);

#endif
