/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of check: unit; purpose; what was measured. docs/check.md has the costs. */
#ifndef UROCE_CHECK_TUNED_H
#define UROCE_CHECK_TUNED_H

/* stacks */
#define RULES 2048 /* return addresses whose unwind rule is kept: 32 KiB; reading one again takes 120 ns */

/* digests of buffers: 18 GB/s; docs/speed.md, "Checked" */
#define DIGEST_MOST  (1u << 20) /* bytes of an SGE at most */
#define WHOLE_FIRST  256u  /* first sends, and receives, of a thread that are digested as a whole at each step ... */
#define WHOLE_THEN   8u	   /* ... then one in so many: a program makes its mistakes again and again */
#define DIGEST_END   2048u /* bytes at both ends of a long SGE of the others */
#define SMALL_BLOCKS 16u   /* first blocks of a receive, which are small, as messages often are */
#define DIGEST_BLOCK 64u   /* bytes of a small block: a cache line */
#define RECORDS	     1024u /* stores of the adapter that are remembered: more than one poll takes in */

/* pages in flight */
#define PAGE_SLOTS \
	1024u /* ranges of pages that are protected; each takes up to two of the 65530 mappings of a process */
#define PAGE_NOTES  64u	 /* accesses that wait for a report */
#define PAGES_KNOWN 256u /* ranges known to be readable and writable, without reading /proc/self/maps */

#define ORDER_LOOKS \
	((uint64_t)2048) /* bytes at each end of long memory that ThreadSanitizer is told of; not measured */

/* breakpoints: of a request that is watched: four system calls and some faults, 300 us in a virtual machine */
#define WATCH_FIRST   64u   /* first requests of a thread that are watched ... */
#define WATCH_THEN    1024u /* ... then one in so many */
#define WATCH_LIST    8u    /* requests of a list among which one is chosen */
#define WATCH_STACK   1024u /* bytes of the stack at an access; not measured */
#define WATCH_THREADS 8u    /* threads that have them, of a process; not measured */
#define WATCH_ROOM    2u /* pages for accesses of one breakpoint: of locked memory, each user has 129 on most hosts */

/* races across processes */
#define NEWEST_AHEAD (10 * USEC) /* ns that the time of the last post is written ahead: fewer shared writes */
#define ALIVE_FOR    (10 * MSEC) /* ns that a process which was alive counts as such: a system call to look */
#define OUTSIDE_LOOK (10 * MSEC) /* ns between looks at the sockets of a process */
#define TABLE_WAIT   (2 * SEC)	 /* ns to find or create the table at most */

/* mappings */
#define PROBES 4096 /* looks at the memory of a region that is deregistered, at most */

/* objects that were destroyed */
#define DESTROYED_MOST 256u /* objects: the last ones, which are known if they are used again */
#define KEPT_MOST      256u /* pieces of their memory that are not freed yet */

/* ends of the process */
#define COPY_STACK (256 << 10) /* bytes of the stack of a copy that reports, for libdw; not measured */
#define COPY_TIME  5	       /* s until a copy that waits for malloc(3) ends; not measured */

/* waits for events */
#define ARM_WAITS 16	      /* armings of a CQ before which a completion that is on its way may come ... */
#define ARM_WAIT  (1 * MSEC)  /* ... for this time, ns: several round trips; not measured */
#define ACK_WAIT  1	      /* s: for acknowledgements that another thread is about to give */
#define ACK_LOOKS (10 * MSEC) /* ns between looks for one, without a condition to wait for */

#endif
