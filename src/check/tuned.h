/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of check: unit; purpose; what was measured. docs/check.md has the costs. */
#ifndef UROCE_CHECK_TUNED_H
#define UROCE_CHECK_TUNED_H

/* stacks */
#define RULES 2048 /* return addresses whose unwind rule is kept: 32 KiB; reading one again takes 120 ns */

/* objects that were destroyed */
#define DESTROYED_MOST 256u /* objects: the last ones, which are known if they are used again */
#define KEPT_MOST      256u /* pieces of their memory that are not freed yet */

/* ends of the process */
#define COPY_STACK (256 << 10) /* bytes of the stack of a copy that reports; libdw takes 20 KiB */
#define COPY_TIME  5	       /* s until a copy that waits for malloc(3) ends; a report takes 0.3 s */

/* waits for events */
#define ARM_WAITS 16	      /* armings of a CQ before which a completion that is on its way may come ... */
#define ARM_WAIT  (1 * MSEC)  /* ... for this time, ns; a round trip on one host takes 10 us */
#define ACK_WAIT  1	      /* s: for acknowledgements that another thread is about to give */
#define ACK_LOOKS (10 * MSEC) /* ns between looks for one, without a condition to wait for */

#endif
