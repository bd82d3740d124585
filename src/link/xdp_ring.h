/* SPDX-License-Identifier: BSD-2-Clause */
/* What a link receives by AF_XDP: a socket for each rx queue of the interface, whose ring the kernel fills with the
 * frames that the program sends to this link, in chunks of the device. A look at the rings is no system call. One
 * thread at a time. */
#ifndef UROCE_XDP_RING_H
#define UROCE_XDP_RING_H

#include "base/qpn.h"
#include "link/packet_ring.h"
#include "link/xdp_device.h"

struct xdp_rx {
	int fd; /* readable when a frame is there */
	struct xdp_area area;
	uint32_t at;	/* the next frame */
	uint32_t given; /* frames whose chunks the kernel has again: those before `at` */
};

struct xdp_ring {
	struct xdp_device *device; /* NULL: none; then the rest is not used */
	uint32_t row;
	union ibv_gid gid;
	uint16_t slots[SLOT_PARTS];
	uint32_t count;
	uint32_t queue; /* the one to look at first */
	struct xdp_rx rx[XDP_QUEUES];
};

/* Frames to that address, as of xdp_ring_part(). 0 or the errors of xdp_device_get(). */
int xdp_ring_open(struct xdp_ring *x, int netif, uint32_t mtu, const union ibv_gid *gid);
/* Those for QPs of these slots. 0 or -errno. */
int xdp_ring_part(struct xdp_ring *x, const uint16_t *slots, uint32_t count);
void xdp_ring_close(struct xdp_ring *x);
/* In a child, after fork(). */
void xdp_ring_abandon(struct xdp_ring *x);

/* The next frame. False: there is none. It lives until xdp_ring_settle(). */
bool xdp_ring_look(struct xdp_ring *x, struct packet_slot *slot);
void xdp_ring_drop(struct xdp_ring *x);
/* The kernel gets the memory of all that was dropped. */
void xdp_ring_settle(struct xdp_ring *x);
/* Bytes, as link.h counts them, that may wait in it. */
uint32_t xdp_ring_room(void);
/* Frames that found no room. */
uint64_t xdp_ring_lost(const struct xdp_ring *x);

#endif
