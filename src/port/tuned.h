/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of ports: unit; purpose; what was measured, and where. Rows of bench/run are in docs/speed.md. */
#ifndef UROCE_PORT_TUNED_H
#define UROCE_PORT_TUNED_H

#include "link/ring.h"
#include "loop/tuned.h"

/* budget of bytes in flight */
#define BUDGET_MAX (512u << 10) /* bytes of all QPs at most: not much more than a processor's cache */
#define BUDGET_MIN \
	(64u << 10)	 /* bytes of all QPs at least, however small the receive buffer of a peer like this process */
#define QP_BUDGET 16384u /* bytes of each QP at least */

#define SPREAD	32u /* processes that get a copy of a message whose owner is unknown; not measured */
#define SPREADS 32u /* such messages in as many ms at most, as anybody may send them: 10% of a processor */

/* posting */
#define TRAIN_CHARGE 16384u	 /* bytes of backlog that are sent at once, as a train; ib_write_bw */
#define SOON	     4096u	 /* bytes of backlog whose sending needs no new time stamp */
#define SENT_LATELY  (20 * USEC) /* ns after which a UC or UD post is sent at once: no more will follow */
#define NOTED	     32		 /* small posts to a local peer for each note of the time; ib_send_lat */

/* receiving: a look at a socket is a system call of 0.2 us */
#define POLL_BATCH    1			       /* packets of a poll: one train */
#define RX_RING_BATCH 32		       /* packets from one local peer before the next one's turn */
#define RX_RINGS_FEW  4			       /* rings of which a look prefetches more than the mark; ib_send_lat */
#define RX_RING_ALL   (LOCAL_RING / RING_UNIT) /* packets: more than a ring holds */
#define QUIET_AGAIN   (10 * USEC)	       /* ns between looks at a quiet port, if there are local peers */
#define SETTLE_AGAIN  (5 * MSEC)  /* ns between looks at a peer that is inside of a delivery: stopped, most likely */
#define SELDOM_AGAIN  (50 * USEC) /* ns between looks at a silent port while local peers are at work */
#define SILENT	      (10 * MSEC) /* ns without a packet that make a port silent */
#define RARE_POLLS    8		  /* polls for each look, if they are further apart than QUIET_AGAIN */
#define LOOK_LEAST    (1 * MSEC)  /* ns between looks at most; "contended" */
#define BUSY_POLLS    200u	  /* polls without a packet that make a port quiet */
#define CATCH_UP      64	  /* trains: about as many as a receive buffer holds */
#define DRAIN_BATCH   4096	  /* packets: as many as a receive buffer may hold */

/* local peers */
#define EXPECT_AGAIN   (10 * USEC)	/* ns between checks whether an expected call has come */
#define STOPPED_AGAIN  (20 * MSEC)	/* ns between checks whether a slow receiver has been stopped */
#define CALL_AGAIN     SEC		/* ns between two calls of a slot that did not answer */
#define RING_AGAIN     (LOCAL_RING / 4) /* bytes free in a ring at which QPs that wait for room continue */
#define DELEGATES_REAP 64		/* delegates made between checks for delegates whose owners have died */

/* running QPs */
#define READY_BATCH 64u		 /* QPs of one call */
#define FULL_WAIT   (100 * USEC) /* ns between looks whether a send buffer or a ring has room */

/* faults and raw frames */
#define HELD_MAX  4096u	       /* packets of a QP that a rule holds; more are dropped, as by a full queue */
#define OVERTAKEN (2 * MSEC)   /* ns that a packet waits to be overtaken */
#define RAW_BATCH 64u	       /* frames of one reception */
#define RAW_HOLD  (200 * MSEC) /* ns that a frame waits for a receive; the helper checks now and then */

#define CLAIM_TRIES 10000 /* tries at an XRC domain while another process holds it exclusively */

#endif
