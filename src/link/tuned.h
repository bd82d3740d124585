/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of the links: unit; purpose; what was measured, and where. */
#ifndef UROCE_LINK_TUNED_H
#define UROCE_LINK_TUNED_H

#include "base/clock.h"

/* udp: buffers and options. docs/speed.md, loopback rows */
#define BUFFER_BYTES (4 << 20) /* bytes asked for; net.core.rmem_max and wmem_max limit it */
#define COPY_BYTES   512u      /* bytes of payload that are copied into a train: cheaper than two more pieces */
#define OWN_BYTES    500u      /* bytes; socket options have segments up to here, which every path MTU allows */
#define OWN_AFTER    8u	       /* consecutive datagrams alike, after which the socket gets their options */

/* udp: receiving. What the kernel reports costs 0.2 us for each datagram, congestion marks 0.15 us */
#define SMALL_BYTES  1024u  /* bytes of a datagram that is split without the report */
#define SMALL_PACKET 256u   /* bytes; or whose packets are this long at most, and as long as the last time */
#define CALM	     16	    /* consecutive ones, from known identifications on, after which the report is off */
#define UNKNOWN_MAX  4	    /* unknown identifications that turn it on ... */
#define TELL_AGAIN   4096   /* ... for so many datagrams */
#define ANEW_TRIES   16u    /* lengths tried with an unknown identification, each for a CRC; tests/fuzz/test_work.c */
#define MARK_LOOK    64u    /* datagrams without a congestion mark, after which marks are not reported ... */
#define MARK_REST    16384u /* ... for so many */

/* udp: ways. docs/udp.md: 3 to 13% of a small message */
#define WAY_AFTER    64u   /* datagrams to a peer before its way is opened; four times as many after each failure */
#define WAY_TRIES    16u   /* ports tried */
#define WAY_FAILURES 5u	   /* failures after which there is none */
#define WAY_CROWD    512u  /* datagrams that found the way in use: several threads send, so it is closed ... */
#define WAY_PERIOD   1024u /* ... if so many by the way are fewer */

/* packet. docs/raw-link.md; docs/speed.md, veth rows */
#define SOCKET_AGAIN (5 * USEC) /* ns between receives from the UDP socket, which are a system call each */
#define WATCH_AGAIN  MSEC	/* ns between looks for changed neighbors and routes */
#define RING_BYTES   (2u << 20) /* bytes of the receive ring; 4 MiB, which no cache holds, cost 0.1 us a message */
#define JUMBO_BYTES  (8u << 20) /* the same for interfaces with jumbo frames; not measured */
#define FRAME_FETCH  256u	/* bytes of a frame prefetched at once */
#define ETHER_BUFFER (32 << 20) /* bytes asked for by raw QPs, whose senders nothing slows; a frame counts as 2 KiB */

/* next hops */
#define HOP_LOOKS    100 /* looks for the answer of ARP or ND ... */
#define HOP_INTERVAL 10	 /* ... ms apart: 1 s, as the kernel's own time limit */

/* ring */
#define RING_AHEAD 2048u /* bytes prefetched; more lines at once stall the processor */
#define RING_FETCH 1024u /* bytes; longer records are copied for long enough that the processor prefetches */

#endif
