/* SPDX-License-Identifier: BSD-2-Clause */
/* The process's side of a capture: records in the ring (capture_file.h). A process has one collector at a time. Any
 * thread may call; nothing here waits for the collector, except capture_connect(). */
#ifndef UROCE_BASE_CAPTURE_H
#define UROCE_BASE_CAPTURE_H

#include "base/capture_file.h"
#include "base/hooks.h"

/* Connects to the collector that UROCE_PCAP names, if it is set. Called whenever a device is opened; does nothing if
 * the process has a collector. */
void capture_start(void);

/* Connects to the collector at this abstract name; `waits`: until it is ready. 0 or -errno (-EBUSY: the process has a
 * collector; -EACCES: the collector is another user's; -EAGAIN: it is not ready). capture_end(): ends the capture. */
int capture_connect(const char *name, bool waits);
void capture_end(void);

/* Returns a record of that many bytes, whose head is filled in. NULL: no room, which is counted, or no collector. Call
 * capture_commit() soon, as other threads wait; the record may have become shorter by then. */
void *capture_begin(enum capture_kind kind, uint64_t bytes);
void capture_commit(struct capture_record *record, uint64_t bytes);

/* Bytes of a payload that are captured at most. */
uint32_t capture_payload(void);

/* Records a trace point that belongs to a packet, such as its work request. */
void capture_event(uint32_t point, const uint64_t arg[6]);

#endif
