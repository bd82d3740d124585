/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of base: unit; purpose; what was measured. */
#ifndef UROCE_BASE_TUNED_H
#define UROCE_BASE_TUNED_H

#include "base/clock.h"

#define LOCK_SPINS 100 /* looks at a held lock before the thread sleeps: a wake-up takes longer */
#define HAZARD_LINGER \
	(10 * MSEC)	     /* ns after which every store is visible, where membarrier(2) has been forbidden since */
#define HAZARD_SPARES	 8   /* hazard tables for threads that find no memory; not measured */
#define HIGH_FD		 512 /* lowest descriptor of the library, above those of programs; docs/waiting.md */
#define OWN_FILE_TRIES	 100 /* openings of a file that others make and remove all the time */
#define CAPTURE_RING	 (64u << 20) /* bytes of captured packets; unused pages take no memory */
#define TRACE_RINGS_MAX	 256	     /* threads with a ring of trace records */
#define REPEATS_WRITTEN	 32	     /* repeated records written, before they are only counted */
#define REPEAT_WINDOW	 8	     /* records that repeat: a round of a request that is refused and sent again */
#define CONTROL_PATIENCE (3 * SEC)   /* ns for a process to answer `uroce stat` and others */
#define CONTROL_LEAST	 (50 * MSEC) /* ns of it for each of many processes, when others have used it up */
#define CONTROL_AT_ONCE	 64	     /* processes that are asked at once: each takes a descriptor */
#define CONTROL_ROUNDS	 3	     /* looks for the process's name */
#define EXPLAIN_STACK	 (16 << 10)  /* bytes of the stack of a copy that asks `uroce explain`; not measured */
#define EXPLAIN_TIME	 5	     /* s until that command is ended; not measured */
#define NARROW		 40	     /* columns: narrower terminals wrap lines by themselves */
#define FURTHER		 2	     /* columns that a continued line is indented */

#endif
