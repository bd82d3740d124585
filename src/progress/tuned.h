/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of progress: unit; purpose; what was measured. docs/waiting.md explains them; the rows are
 * "contended" and "asleep" of bench/run in docs/speed.md. */
#ifndef UROCE_PROGRESS_TUNED_H
#define UROCE_PROGRESS_TUNED_H

#include "loop/tuned.h"

/* waking up */
#define WAKE_LEAST (20 * USEC)	/* ns of a wake-up on a fast machine */
#define WAKE_MOST  (200 * USEC) /* ns of the same in an emulated machine; more means a busy processor */
#define SPIN	   WAKE_LEAST	/* ns of polling before a thread sleeps: as long as a wake-up takes */

/* yields of a thread that polls in vain */
#define YIELD_AFTER   (20 * USEC) /* ns between two yields */
#define YIELD_HELD    (4 * MSEC)  /* ns of a yield of the program's, in which another kept the processor */
#define YIELDS_ITSELF 64	  /* polls without a yield of ours after one of the program's; "contended" */
#define YIELD_USED    (1 * USEC)  /* ns; another thread ran in a yield that took longer */
#define YIELD_SHARE   8u	  /* part of a yield that another program used, 1/8, until the next one */
#define KEEP_MAX      (1 * MSEC)  /* ns; the same at most, where threads of this process yield too */
#define TURN	      (2 * MSEC)  /* ns for each yield of such a thread; a longer yield was used by another program */
#define SPARE_FOR     128	  /* arrivals and yields during which a thread yields after FEW_GLANCES polls */
#define FEW_GLANCES   ((uint64_t)15)  /* polls without the clock: about 0.5 us */
#define MANY_GLANCES  ((uint64_t)127) /* the same at most */
#define GLANCE_TIME   (5 * USEC)      /* ns without the clock at most, with what the thread does between polls */
#define FOUND_GLANCES 8u	      /* fewer polls without the clock after one that found something */
#define STALE_AFTER   16u	      /* packets after which the clock is read again */
#define FLUSH_AFTER   16u	      /* polls of a busy thread after which what waits is sent */

/* naps of such a thread, if another program wants the processor */
#define CROWDED	       64 /* lengths of a long yield: during this time a thread naps and the helper does not spin */
#define CROWDED_ONCE   8  /* the same after a single long yield */
#define CROWDED_MOST   (256 * MSEC) /* ns; the same at most */
#define NAP	       (100 * USEC) /* ns of a nap at most */
#define NAP_AFTER      (5 * USEC)   /* ns between two naps, if local peers are awaited */
#define NAP_AFTER_PORT (60 * USEC)  /* ns between naps of the network; a wake-up for each packet makes short trains */

/* waits */
#define VAIN_SURE                                                                                                     \
	4u /* consecutive spins in vain after which the peer may wait for this processor: threads wait without a spin \
	    */
#define VAIN_AGAIN 128u /* waits for each further spin after VAIN_SURE */

/* guard: the helper's looks at a thread that polls, in wake-ups (h->wake, 20 us or more) */
#define POLL_RECENT(h) ((h)->wake)	   /* ns since a poll: the thread polls still */
#define POST_RECENT(h) ((h)->wake * 5 / 2) /* ns since a post: it will poll again */
#define POST_LONG(h)   ((h)->wake * 25)	   /* ns since a poll: it only posts */
#define GUARD_FIRST(h) POST_RECENT(h)	   /* ns until the first look: 50 us */
#define GUARD_SURE     3u	 /* consecutive looks, each after twice the time, after which a thread polls for good */
#define GUARD_LAST     5u	 /* looks after which the time is constant */
#define SLACK_PRECISE  1000ul	 /* ns of timer slack */
#define SLACK_LAX      4000000ul /* ns of timer slack if a thread polls for good: a processor's tick */

/* the helper while it works */
#define ANSWER_DELAY (10 * USEC)	/* ns that an ACK waits for an answer */
#define STREAM	     (200 * USEC)	/* ns between trains of a sender that goes on: the helper polls as long */
#define TRAIN_LEAST  8u			/* packets of a train that counts */
#define STREAM_SURE  8			/* consecutive trains that make a stream */
#define STREAM_LONG  (STREAM_SURE + 64) /* the same of a long one */
#define STREAM_DOUBT 32			/* more trains until the next stream counts, after a long one */
#define STREAM_MOST  4096		/* the same at most; doubled after each short stream */
#define NOT_YET	     (50 * USEC)	/* ns between two calls of a handler that can do nothing yet */
#define SLICE	     (100 * USEC)	/* ns of a slice, so that the woken helper preempts a thread that spins */

/* descriptors of channels */
#define WAITFD_OTHERS 64   /* arms of other waitfds of the thread, after which one of them is joined */
#define WAITFD_APART  1024 /* arms without a joined one, after two threads armed one each */
#define WAITFD_TRIES  8	   /* looks for what came while the thread armed */

#define EXIT_TRIES     1000	    /* yields of exit() while another thread receives */
#define HANDLERS_FRESH (100 * MSEC) /* ns until signal handlers are read again, which takes 4 us */

#endif
