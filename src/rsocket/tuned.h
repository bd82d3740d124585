/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of rsockets: unit; purpose; what was measured, and where. */
#ifndef UROCE_RSOCKET_TUNED_H
#define UROCE_RSOCKET_TUNED_H

#include "cm/tuned.h"

/* streams */
#define MESSAGE_MAX	  (32u << 10) /* bytes; the peer reads one while the next is copied; docs/speed.md, rstream */
#define LOOK_AROUND_AFTER (8u << 10)  /* bytes copied after which a call polls; docs/speed.md, rstream */
#define TRAIN_PACKETS	  2	      /* packets; more leave as WRITE and word: 64 KiB by UDP, 55 to 36 us, rstream */
#define QUIET_MESSAGES	  16	      /* messages for each signaled one; docs/speed.md, rstream -S 64 */
#define ROOM		  (16u << 10) /* bytes free for POLLOUT; a relay's write (socat) does not wait inside of it */
#define IOMAP_WRITE_MAX	  (64u << 10) /* bytes of one riowrite() message; not measured */

/* connections: docs/speed.md, connections each second beside TCP */
#define POOLED	   32	       /* regions kept for the next connections */
#define CLOSE_SPIN (50 * USEC) /* ns for the last ACKs; a wake-up of the service thread costs as much */
#define TRY_TIME   SEC	       /* ns for a host to answer before TCP is used instead; an Internet round trip fits */
#define SILENCE	   (30 * SEC)  /* ns until a silent host is tried again: 20 requests of ab, 11.1 to 1.1 s */
#define PART_TIME  (32 * 4096ull << CM_ACK_TIMEOUT) /* ns without an ACK at exit: a requester ends after 8 times 4 T */
#define EXIT_TIME  (2500 * MSEC) /* ns of the same at _exit(2), which a handler amid receiving may have called */
#define EXIT_LOOK  (100 * USEC)	 /* ns between looks whether that is done; not measured */

/* datagrams; not measured */
#define BUCKETS	    64	/* of the hash of destinations */
#define BUCKET_MAX  64	/* destinations in one; the oldest goes */
#define UDP_MAX	    256 /* datagrams that came by UDP and wait to be read */
#define UDP_BATCH   32	/* of these, received at once */
#define UDP_EVERY   64	/* calls with completions after which UDP is looked at too */
#define CLOSE_MS    200 /* ms for sends to complete in rclose() */
#define SLOTS_LEAST 16	/* receives, and sends, of a UD QP */

#define POLL_FEW 16 /* descriptors of a poll that need no allocation */

#endif
