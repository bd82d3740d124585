/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of what processes of one host share: unit; purpose; what was measured, and where. Sizes of shared
 * tables stand beside their layout. */
#ifndef UROCE_HOST_TUNED_H
#define UROCE_HOST_TUNED_H

#include "base/clock.h"

#define LOCK_PATIENCE	   (2 * SEC)	/* ns for another process to release a lock: a debugger may have stopped it */
#define LOCK_WAIT_MIN	   (100 * USEC) /* ns between the first two tries at a lock */
#define LOCK_WAIT_MAX	   (10 * MSEC)	/* ns between two tries at most; tests/loop/test_handover.c, many processes */
#define NAME_INTERVAL	   (10 * MSEC)	/* ns between looks for a folder that another process is making */
#define ANSWER_MS	   200		/* ms for the registry from another process, where one had it before */
#define ANSWER_LATE_MS	   1000		/* ms of the second try: on a busy machine helpers come late */
#define STRAYS		   4 /* packets for others that show that steering is wrong: more than were in flight */
#define REPAIR_INTERVAL	   (10 * MSEC) /* ns between two repairs of steering */
#define CROWD		   64 /* processes above which a new one seldom looks for dead ones; a look takes 1 us for each */
#define PRUNE_INTERVAL	   (10 * MSEC) /* ns between such looks above CROWD */
#define HANDOVER_RECEIVERS 8	       /* processes to which a connection is kept; not measured */

#endif
