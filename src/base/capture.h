/* SPDX-License-Identifier: BSD-2-Clause */
/* The process's side of a capture: finds room in the ring (capture_file.h). A process has one collector at a time. Any
 * thread may call; nothing here waits for the collector. */
#ifndef UROCE_BASE_CAPTURE_H
#define UROCE_BASE_CAPTURE_H

#include "base/capture_file.h"
#include "base/hooks.h"

/* Connects to the collector that UROCE_PCAP names, if it is set. Called whenever a device is opened; does nothing if
 * the process has a collector. */
void capture_start(void);

/* Connects to the collector at this abstract name; `waits` until it is ready. 0 or -errno (-EBUSY: there is a
 * collector; -EACCES: it is another user's; -EAGAIN: it would have to be waited for). capture_end(): whatever happens
 * from now on is not captured. */
int capture_connect(const char *name, bool waits);
void capture_end(void);

/* Room for a record of so many bytes, whose head is filled in. NULL: there is none, and this is counted; or there is no
 * collector. After it, capture_commit(), soon: other threads wait. The record may have become shorter by then. */
void *capture_begin(enum capture_kind kind, uint64_t bytes);
void capture_commit(struct capture_record *record, uint64_t bytes);

/* No more of a payload than this is wanted. */
uint32_t capture_payload(void);

/* What the trace points tell that belongs to a packet: which work request it is of. */
void capture_event(uint32_t point, const uint64_t arg[6]);

#endif
