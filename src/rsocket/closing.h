/* SPDX-License-Identifier: BSD-2-Clause */
/* Rsockets that the program has closed and whose last bytes have no ACK yet. */
#ifndef UROCE_RSOCKET_CLOSING_H
#define UROCE_RSOCKET_CLOSING_H

#include "rsocket/rsocket.h"

/* Puts the caller's reference when all that was sent has an ACK. */
void closing_add(struct rsocket *rs);
/* Puts those that are done. */
void closing_run(void);
/* At the end of a process: as a kernel's socket, tells each peer that this is the end, and waits until all bytes have
 * an ACK, or none arrives for PART_TIME. */
void closing_finish(void);
/* clock_now() of the last ACK that closing_finish() has noticed, or of its start. */
uint64_t closing_last_moved(void);
/* The rsockets are the parent's. */
void closing_in_child(void);

#endif
