/* SPDX-License-Identifier: BSD-2-Clause */
/* Whole Ethernet frames, by packet sockets: what raw packet queue pairs send and receive. It needs CAP_NET_RAW in the
 * network namespace. port/raw.c owns them. */
#ifndef UROCE_ETHER_H
#define UROCE_ETHER_H

#include "link/link.h"

enum { ETHER_FRAME = 65536 + 18 }; /* bytes: the kernel may have merged several */

/* A frame that has come, or that somebody on this host sends. False: no more now, as it stays in the buffer. */
typedef bool ether_deliver(void *arg, const uint8_t *frame, uint32_t length, bool outgoing);

/* A link that only sends: of link_tx, the pieces are the frame. *loopback: what it sends comes in again. 0 or -errno:
 * EPERM ... */
int ether_open(int interface, struct link *link, bool *loopback);
void ether_close(struct link *link);

/* A descriptor that is readable when frames have come, all of them that the interface sees; or -errno. */
int ether_listen(int interface);
/* Up to `batch` frames, through a buffer of ETHER_FRAME bytes. True: there were some. */
bool ether_receive(int fd, uint8_t *buffer, uint32_t batch, ether_deliver *deliver, void *arg);

#endif
