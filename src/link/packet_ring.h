/* SPDX-License-Identifier: BSD-2-Clause */
/* The receive ring of a packet socket (PACKET_RX_RING, TPACKET_V2): the kernel writes each frame into a slot of memory
 * that it shares with us, so a look at the ring is no system call. Version 3 fills blocks of several frames and hands
 * them over a millisecond later, or when they are full. One thread at a time. */
#ifndef UROCE_PACKET_RING_H
#define UROCE_PACKET_RING_H

#include <stdbool.h>
#include <stdint.h>

struct packet_ring {
	int fd; /* -1: there is none */
	uint8_t *memory;
	uint32_t slot_bytes, slots;
	uint32_t at;
};

/* What the kernel shows of a frame. */
struct packet_slot {
	const uint8_t *bytes; /* NULL: it is longer than a slot and waits in the socket: packet_ring_read() */
	uint32_t length;
	bool cut; /* the kernel had no room for the rest */
};

/* A ring for frames that come to an interface with that MTU; it begins with packet_ring_begin(). 0 or -errno: EPERM
 * without CAP_NET_RAW. */
int packet_ring_open(struct packet_ring *r, uint32_t mtu);
/* What is to come in is said by a filter. 0 or -errno. */
int packet_ring_begin(struct packet_ring *r, int netif);
void packet_ring_close(struct packet_ring *r);

/* The next frame. False: there is none. It lives until packet_ring_drop(). */
bool packet_ring_look(const struct packet_ring *r, struct packet_slot *slot);
/* A frame that is longer than a slot: its first `head` bytes, and the rest. Its length; -errno. */
int packet_ring_read(const struct packet_ring *r, void *head, uint32_t head_bytes, void *rest, uint32_t rest_bytes);
void packet_ring_drop(struct packet_ring *r);
/* Bytes, as link.h counts them, that may wait in it. */
uint32_t packet_ring_room(const struct packet_ring *r);
/* Frames that found no room, since the last call. */
uint32_t packet_ring_lost(const struct packet_ring *r);

#endif
