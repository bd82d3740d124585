/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of the loop's state: unit; purpose; what was measured, and where. */
#ifndef UROCE_LOOP_TUNED_H
#define UROCE_LOOP_TUNED_H

#include "base/clock.h"

#define LOCAL_MTU                                                                                          \
	16384u /* bytes of a packet by shared memory: sender and receiver overlap. docs/speed.md, one host \
		*/
#define LOCAL_RING  (512u << 10) /* bytes of each rx ring. docs/shared-memory.md */
#define YIELD_LONG  (500 * USEC) /* ns of a sched_yield() in which a thread ran that does not yield soon */
#define READY_DELAY (50 * USEC)	 /* ns that a ready QP waits for a thread of the program to run it */
#define LEAVE_LOOK  (1 * MSEC)	 /* ns after a thread left loop_wait() until the helper looks */
#define SLEEP_PORTS 15		 /* ports that a sleeping thread watches; more are left to the helper */
#define EXCUSES	    16u /* the helper's looks, the last 4 ms apart, before a thread without a processor is given up */
#define LOOKS_SURE  3u	/* consecutive looks with polls between, after which a thread polls for good */

#endif
