/* SPDX-License-Identifier: BSD-2-Clause */
/* Trace points: see trace.def for the list. While tracing is off, a trace point costs one predictable branch. While it
 * is on (UROCE_TRACE names a file), it writes one record into the ring of the calling thread, which is part of that
 * file. */
#ifndef UROCE_TRACE_H
#define UROCE_TRACE_H

#include "base/hooks.h"
#include "base/trace_point.h"

/* Opens the file that UROCE_TRACE names, if it is set. Called whenever a device is opened; only the first call has an
 * effect. */
void trace_start(void);

/* Begins to trace a process that runs: into a memfd, which is kept for the next time. Returns a descriptor of it, which
 * the caller closes, or -errno (-EBUSY: traced already). Records of earlier times are before the header's start. Called
 * by the helper thread, as is trace_live_end(). */
int trace_live(void);
void trace_live_end(void);

/* Writes a record. Any thread may call; never blocks. Does nothing while tracing is off. */
void trace_record(enum trace_point point, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f);

#define trace(point, a, b, c, d, e, f)                                 \
	do {                                                           \
		if (hooks_any())                                       \
			trace_record(TRACE_##point, a, b, c, d, e, f); \
	} while (0)

#endif
