/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of the engine: unit; purpose; what was measured, and where. "loss" rows are of `make bench-loss`. */
#ifndef UROCE_ENGINE_TUNED_H
#define UROCE_ENGINE_TUNED_H

#include "base/clock.h"

/* sizes */
#define FAST_RING_MOST	    2048 /* bytes of payload; above, the copy takes the time. docs/speed.md, one host */
#define FAST_UDP_LEAST	    4 /* bytes of payload; below, the ACK is longer than the packet and ends no train with it */
#define FAST_UDP_MOST	    512 /* bytes of payload; above, a link should need no copy */
#define FAST_UDP_LIST	    32	/* packets of such a train; a list is posted as several. `make count`, lists of 32 */
#define READ_CHUNK	    65536u /* bytes of a READ request; a repeated one lies in the lost one; paces responses; "loss" */
#define REFERENCE_CHUNK	    (1u << 20) /* bytes that one packet refers to; other QPs of the receiver wait for its copy */
#define REFERENCE_CHUNK_GPU (32u << 20) /* bytes of such a packet for GPU memory, slow to begin. docs/gpu.md */
#define TRAIN		    61440u	/* bytes of a train; with headers, a UDP datagram takes no more */
#define UD_TOGETHER	    216u	/* bytes up to which copying twice is faster than a second look-up of memory */

/* windows; "loss" */
#define PACKET_OVERHEAD 128u				/* bytes that a packet's buffers and headers weigh */
#define FIRST_WINDOW	(16 * (4096 + PACKET_OVERHEAD)) /* bytes of the congestion window at first */
#define LOSSLESS_WINDOW (1u << 30)			/* bytes: no limit */
#define DRAINED		(500 * USEC) /* ns in which a peer empties its socket; longer paths hold more */
#define QUEUED		(10 * USEC)  /* ns of a round trip that are no queue, but an end's own time */
#define LOSSY_PART	8	     /* part of a round's packets above which losses mean congestion */
#define LOSSY_LEAST	4	     /* packets above that part */
#define ROUND_WINDOWS	2	     /* windows of a round */
#define LONG_PATH	MSEC	     /* ns of round trip for each packet that a round adds */
#define ADDED_MOST	5ull	     /* packets that a round adds at most */

/* ACKs: docs/speed.md, instructions per operation */
#define ACK_PROMPT 32 /* packets after which a requested ACK no longer waits for an answer */
#define ACK_EVERY  64 /* packets after which an ACK is sent, requested or not */

/* loss; "loss" */
#define NAKS_ALONE   2	/* NAKs without a selective ACK that show a peer that keeps nothing; one may be lost or late */
#define IGNORED_MOST 2	/* selective ACKs ignored that show a peer that does not know them */
#define REPAIRS	     64 /* answers to repeat that are remembered */
#define READ_PROBES  4	/* probes after which a READ is requested as a whole */
#define TIMEOUT_MIN  (5 * MSEC)	  /* ns of the transport timer; below this, scheduling looks like loss */
#define PROBE_MIN    (2 * MSEC)	  /* ns until a probe to other adapters, or with READs under way */
#define PROBES_MAX   8		  /* consecutive probes */
#define QUICK_MIN    (500 * USEC) /* ns until a probe to a uroce; one in vain costs one packet */
#define READS_MIN    (10 * MSEC)  /* ns until a probe with several READs, where later responses show a loss */
#define ROUND_MIN    (100 * USEC) /* ns of the time-out that round trips give */

/* one-sided operations, receives that are not there yet */
#define ASK_INTERVAL (100 * USEC) /* ns after which a packet asks for an ACK again; well below all timers */
#define HASTY_MOST   6		  /* 2 to the power of it: packets at most until the next one-sided try */
#define RNR_PATIENCE (4 * MSEC)	  /* ns that a local peer waits for a receive: as another thread keeps the processor */
#define RNR_FIRST    (20 * USEC)  /* ns until the first look for it; each next after twice the time */

/* credits of UC and UD; docs/udp.md */
#define FREE_BYTES	65536u	     /* bytes until the first grant */
#define FREE_MESSAGES	32u	     /* messages until the first grant */
#define CREDIT_FIRST	(200 * USEC) /* ns between the first two credit requests */
#define CREDIT_LAST	(8 * MSEC)   /* ns between two credit requests at most */
#define CREDIT_SILENT	SEC	     /* ns between credit requests to a silent peer */
#define CREDIT_NEW	(250 * MSEC) /* ns without an answer after which a peer that never answered is silent */
#define CREDIT_PATIENCE SEC	     /* ns of the same for a peer that has answered: it may wait for a processor */
#define CREDIT_BEHIND	(10 * SEC)   /* ns of the same for a local peer that has not read all yet */
#define CREDIT_PERIOD	(50 * MSEC)  /* ns after which a sender no longer relies on an unused grant */
#define CREDIT_PERIODS	2	     /* periods after which the receiver takes a grant back */

#endif
