/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that goes on with an XRC target whose home is no more, from what that has left behind (object/keep.h):
 * packets for its number come here from now on, although that names another process. Called by whoever has won it,
 * far_qp.c; by one thread at a time. Nothing blocks but heir_leave(). */
#ifndef UROCE_HEIR_H
#define UROCE_HEIR_H

#include "object/keep.h"

/* `qp` is in RESET and has the number. 0, and then it is as the home's was. -EAGAIN: somebody else is at it, so try
 * again. -EADDRNOTAVAIL: nothing is bound here at the address that it had; or other -errno. */
int heir_begin(struct qp *qp) EXCLUDES(qp->lock);
/* Packets for it do not come here any more. */
void heir_leave(struct qp *qp) EXCLUDES(qp->lock);

/* The slot of the process that has the QP of a number, if any has. */
uint8_t heir_of(struct hca *hca, uint32_t qpn);

/* The home lets go of a QP that others have open, or may have: it is in RESET afterwards, and may be somewhere else. */
void heir_release(struct qp *qp) REQUIRES(qp->lock);
/* ... or changes it, other than by packets. */
void heir_note(struct qp *qp) REQUIRES(qp->lock);

#endif
