/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process has of an interface by AF_XDP: the program, and for each rx queue a socket with memory (UMEM) in
 * chunks of a frame each. The links of the process on that interface share it; each has sockets of its own
 * (xdp_ring.h). The last xdp_device_put() frees it. Only one process at a time can have an interface. One thread at a
 * time. */
#ifndef UROCE_XDP_DEVICE_H
#define UROCE_XDP_DEVICE_H

#include <linux/if_xdp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/lock.h"
#include "link/xdp_program.h"

enum { XDP_CHUNKS = 2048 }; /* of a queue. Power of two, as are the rings */

/* A ring that is shared with the kernel. Each end writes its own index. */
struct xdp_area {
	_Atomic uint32_t *producer, *consumer;
	void *entries; /* of struct xdp_desc, or numbers of bytes in the memory */
	uint32_t mask;
	void *mapped;
	size_t bytes;
};

/* Maps a ring of so many entries, after setsockopt() has made it. 0 or -errno. */
int xdp_area_map(struct xdp_area *a, int fd, off_t at, const struct xdp_ring_offset *o, uint32_t entries, size_t size);
void xdp_area_unmap(struct xdp_area *a);
/* Makes a ring, one of XDP_RX_RING and so on. 0 or -errno. */
int xdp_area_make(int fd, int option, uint32_t entries);

struct xdp_queue {
	int fd;
	uint8_t *memory;
	struct lock fill_lock;
	struct xdp_area fill GUARDED_BY(&fill_lock); /* chunks for frames that are to come */
};

struct xdp_device {
	struct xdp_device *next;
	int netif;
	uint32_t users;
	uint32_t chunk_bytes;
	bool row[XDP_ROWS]; /* taken */
	struct xdp_program program;
	uint32_t queues;
	struct xdp_queue queue[XDP_QUEUES];
};

/* That of the interface, whose MTU is that. 0 or -errno: EPERM, EBUSY (another process or program has it), EMSGSIZE
 * (frames are too long), EOPNOTSUPP and others of the driver, ENOBUFS (no memory may be locked). */
int xdp_device_get(int netif, uint32_t mtu, struct xdp_device **device);
void xdp_device_put(struct xdp_device *d);
/* In a child, after fork(): closes descriptors, when all links have called it. */
void xdp_device_abandon(struct xdp_device *d);

#endif
