/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of connection management: unit; purpose; what was measured, and where. Exponents are those of
 * cm_time(): 4.096 us times 2 to the power of it. */
#ifndef UROCE_CM_TUNED_H
#define UROCE_CM_TUNED_H

#include "base/clock.h"

/* times of messages; the kernel's values for RoCE unless stated otherwise */
#define CM_RESPONSE_TIMEOUT 20 /* exponent, 4.3 s: the response time asked from peers and given to them */
#define CM_SERVICE_TIMEOUT  24 /* exponent, 69 s: the time that an MRA asks for the program */
#define CM_ACK_TIMEOUT	    17 /* exponent, 0.5 s: local ACK timeout of the path */
#define PACKET_LIFE	    (CM_ACK_TIMEOUT - 1) /* exponent: half of CM_ACK_TIMEOUT */
#define TIMEOUT_LEAST	    18			 /* exponent, 1.1 s: the shortest that a peer may ask for */
#define CM_RETRIES	    15			 /* repetitions of a message: 69 s in all */
#define DREQ_RETRIES	    3			 /* of a DREQ: a peer that does not answer has probably ended */
#define CM_FIRST_RETRY	    (50 * MSEC)		 /* ns until the first one; each next takes twice as long */
#define CM_PATIENCE	    (120 * MSEC)	 /* ns until a request for a service that is unknown yet is rejected */
#define TIMEWAIT_SLACK	    (5 * MSEC)		 /* ns; one timer call ends the TIMEWAIT of many connections */

/* limits; bench/run, connections each second; tests/cm/test_flood.c */
#define CONNECTION_LIMIT 65536 /* connections of a process, with TIMEWAIT */
#define CM_UNPROVEN_MAX	 128   /* half-open connections of unproven addresses; above, an address must prove itself */
#define CM_SOURCE_MAX	 2048  /* half-open connections of one address; further requests are dropped, and repeated */
#define CM_HALF_OPEN_MAX 8192  /* half-open connections; above this the oldest is dropped */
#define CM_ANSWERED_MAX	 16384 /* answered requests kept for repetitions; above this the oldest is dropped */
#define CM_AMPLIFICATION 3     /* messages to an unproven address for each message from it; all have one length */
#define CM_BUCKETS	 1024  /* of hashes of connections */
#define SOURCES_PROVEN	 1024  /* proven addresses stored, about */
#define SOURCES_COUNTED	 4096  /* addresses with a counter of their own, about */
#define SOURCE_TRUST	 (60 * SEC) /* ns that a proof lasts */
#define RESTING		 256	    /* free indexes: with 32 uses of each, no id comes again before 8,192 others */
#define BACKLOG_MAX	 1024	    /* connections that wait to be accepted; not measured */
#define PORT_TRIES	 512	    /* ephemeral ports tried; not measured */
#define RETIRED		 64u	    /* destroyed channels kept; not measured */
#define TIME_TO_END	 5000	    /* ms until a wait for a destroyed channel ends with EBADF */

/* resolving */
#define RESOLVE_MS    2000	  /* ms for an address, and for a route: rdma-core's */
#define RESOLVE_FIRST (1 * MSEC)  /* ns: first pause between looks for the answer of ARP or ND; doubles */
#define RESOLVE_LAST  (64 * MSEC) /* ns: longest pause between such looks */
#define RESOLVE_LASTS SEC	  /* ns that a result is used again: a query takes 25 us */

/* the guardian and liveness watches */
#define GUARDIAN_ROUNDS	  3u	       /* times that each message is sent */
#define GUARDIAN_FIRST	  (20 * MSEC)  /* ns between the first two rounds */
#define GUARDIAN_PAUSE	  (100 * MSEC) /* ns between later rounds */
#define GUARDIAN_LARGE	  (256u << 10) /* KiB of private memory: copying the page tables of 1 GiB takes 10 ms and more */
#define GUARDIAN_PART	  16u /* its part of a limited address space (ulimit -v) at most; the program needs the rest */
#define LIVENESS_LOOKS	  50  /* quick looks at a slot whose process has hung up: it closes one after another */
#define LIVENESS_FIRST	  (5 * MSEC) /* ns between the first two slow looks after them; doubles */
#define LIVENESS_PATIENCE (10 * SEC) /* ns until the process is taken for alive */

#endif
