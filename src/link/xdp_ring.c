/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/xdp_ring.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/high_fd.h"
#include "link/netif.h"
#include "link/packet_frame.h"
#include "wire/packet.h"

#define FETCH	    256u /* bytes: the lines of a short frame come at once, not as each is known to be there */
#define QPN_AT	    5u	 /* of the destination, in the BTH ... */
#define QPN_BYTES   3u
#define FROM_IPV4   12u /* the source address, in the IP header */
#define FROM_IPV6   8u
#define FRAME_COUNT 512u /* bytes that a small packet counts at most */

static int rx_open(const struct xdp_ring *x, struct xdp_rx *rx)
{
	const struct xdp_device *d = x->device;
	uint32_t number = (uint32_t)(rx - x->rx);
	struct sockaddr_xdp a = {.sxdp_family = AF_XDP,
				 .sxdp_flags = XDP_SHARED_UMEM,
				 .sxdp_ifindex = (uint32_t)d->netif,
				 .sxdp_queue_id = number,
				 .sxdp_shared_umem_fd = (uint32_t)d->queue[number].fd};
	struct xdp_mmap_offsets o = {0};
	socklen_t size = sizeof(o);
	int err;

	rx->fd = high_fd(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
	if (rx->fd < 0)
		return -errno;
	err = xdp_area_make(rx->fd, XDP_RX_RING, XDP_CHUNKS);
	if (!err && getsockopt(rx->fd, SOL_XDP, XDP_MMAP_OFFSETS, &o, &size))
		err = -errno;
	if (!err)
		err = xdp_area_map(&rx->area, rx->fd, XDP_PGOFF_RX_RING, &o.rx, XDP_CHUNKS, sizeof(struct xdp_desc));
	if (!err && bind(rx->fd, (struct sockaddr *)&a, sizeof(a)))
		err = -errno;
	return err ?: xdp_program_set_socket(&d->program, x->row, number, rx->fd);
}

static int take_row(struct xdp_ring *x)
{
	for (x->row = 0; x->row < XDP_ROWS; x->row++)
		if (!x->device->row[x->row]) {
			x->device->row[x->row] = true;
			return 0;
		}
	return -ENOSPC;
}

int xdp_ring_open(struct xdp_ring *x, int netif, uint32_t mtu, const union ibv_gid *gid)
{
	int err;

	*x = (struct xdp_ring){.gid = *gid};
	for (uint32_t i = 0; i < XDP_QUEUES; i++)
		x->rx[i].fd = -1;
	err = xdp_device_get(netif, mtu, &x->device);
	if (err)
		return err;
	err = take_row(x);
	for (uint32_t i = 0; !err && i < x->device->queues; i++)
		err = rx_open(x, &x->rx[i]);
	if (err)
		xdp_ring_close(x);
	return err;
}

int xdp_ring_part(struct xdp_ring *x, const uint16_t *slots, uint32_t count)
{
	int err = 0;

	for (uint32_t i = 0; i < count && !err; i++)
		err = xdp_program_set_row(&x->device->program, &x->gid, slots[i], x->row);
	memcpy(x->slots, slots, count * sizeof(*slots));
	x->count = count;
	return err;
}

static void close_sockets(struct xdp_ring *x)
{
	for (uint32_t i = 0; i < XDP_QUEUES; i++) {
		xdp_area_unmap(&x->rx[i].area);
		if (x->rx[i].fd >= 0)
			close(x->rx[i].fd);
		x->rx[i].fd = -1;
	}
}

/* What still waits is lost, but not its memory, which the other links of the device go on using. */
static void discard(struct xdp_ring *x)
{
	struct packet_slot slot;

	while (xdp_ring_look(x, &slot))
		xdp_ring_drop(x);
	xdp_ring_settle(x);
}

void xdp_ring_close(struct xdp_ring *x)
{
	if (!x->device)
		return;
	for (uint32_t i = 0; i < x->count; i++)
		xdp_program_forget(&x->device->program, &x->gid, x->slots[i]);
	if (x->count) /* else a socket may be missing */
		discard(x);
	close_sockets(x);
	if (x->row < XDP_ROWS)
		x->device->row[x->row] = false;
	xdp_device_put(x->device);
	x->device = NULL;
}

/* There the rings are not mapped, and the maps of the program are the parent's. */
void xdp_ring_abandon(struct xdp_ring *x)
{
	if (!x->device)
		return;
	for (uint32_t i = 0; i < XDP_QUEUES; i++)
		x->rx[i].area.mapped = NULL;
	close_sockets(x);
	xdp_device_abandon(x->device);
	x->device = NULL;
}

static bool is_ack(uint8_t opcode)
{
	return opcode == OP_ACKNOWLEDGE || opcode == (TRANSPORT_XRC | OP_ACKNOWLEDGE);
}

/* Whether the second of two frames is an ACK to the QP of which the first has a request, from the same host. Both are
 * those of the program, whose headers have one length. */
static bool ack_follows(const struct xdp_ring *x, const uint8_t *first, const uint8_t *second)
{
	bool is_ipv4 = address_is_ipv4(&x->gid);
	uint32_t head = packet_frame_headers(is_ipv4), from = FRAME_ETHERNET + (is_ipv4 ? FROM_IPV4 : FROM_IPV6);

	return is_ack(second[head]) && opcode_info[first[head]].flags & IS_REQUEST &&
	       !memcmp(first + head + QPN_AT, second + head + QPN_AT, QPN_BYTES) &&
	       !memcmp(first + from, second + from, is_ipv4 ? 4 : 16);
}

/* An ACK at the end of a train is to be delivered before the request that it stands behind: see udp_receive.c's
 * deliver_ack(). The kernel does not look at entries that it has handed over. */
static void put_ack_first(const struct xdp_ring *x, struct xdp_desc *first, struct xdp_desc *second)
{
	const uint8_t *memory = x->device->queue[x->queue].memory;
	struct xdp_desc keep = *first;

	if (likely(!ack_follows(x, memory + first->addr, memory + second->addr)))
		return;
	*first = *second;
	*second = keep;
}

static void show(const struct xdp_ring *x, const struct xdp_desc *desc, struct packet_slot *slot)
{
	slot->bytes = x->device->queue[x->queue].memory + desc->addr;
	slot->length = desc->len;
	slot->cut = false;
	for (uint32_t at = 0; at < FETCH; at += CACHE_LINE)
		__builtin_prefetch(slot->bytes + at);
}

bool xdp_ring_look(struct xdp_ring *x, struct packet_slot *slot)
{
	for (uint32_t i = 0; i < x->device->queues; i++) {
		struct xdp_rx *rx = &x->rx[x->queue];
		struct xdp_desc *entries = rx->area.entries, *desc = &entries[rx->at & rx->area.mask];
		/* acquire pairs with the kernel's release after it has written the entries and the frames */
		uint32_t end = atomic_load_explicit(rx->area.producer, memory_order_acquire);

		if (rx->at != end) {
			if (rx->at + 1 != end)
				put_ack_first(x, desc, &entries[(rx->at + 1) & rx->area.mask]);
			show(x, desc, slot);
			return true;
		}
		x->queue = x->queue + 1 == x->device->queues ? 0 : x->queue + 1;
	}
	return false;
}

void xdp_ring_drop(struct xdp_ring *x)
{
	x->rx[x->queue].at++;
}

static void give(struct xdp_rx *rx, struct xdp_queue *q, uint32_t chunk_bytes)
{
	const struct xdp_desc *from = rx->area.entries;
	uint64_t *to;
	uint32_t end;

	lock_take(&q->fill_lock);
	to = q->fill.entries;
	end = atomic_load_explicit(q->fill.producer, memory_order_relaxed);
	for (; rx->given != rx->at; rx->given++)
		to[end++ & q->fill.mask] = from[rx->given & rx->area.mask].addr & ~(uint64_t)(chunk_bytes - 1);
	/* release pairs with the kernel's acquire of the index before it reads the entries, and before it writes to
	 * the memory: that has been read */
	atomic_store_explicit(q->fill.producer, end, memory_order_release);
	lock_drop(&q->fill_lock);
	/* release pairs with the kernel's look at the index before it writes new entries */
	atomic_store_explicit(rx->area.consumer, rx->given, memory_order_release);
}

void xdp_ring_settle(struct xdp_ring *x)
{
	for (uint32_t i = 0; i < x->device->queues; i++)
		if (x->rx[i].given != x->rx[i].at)
			give(&x->rx[i], &x->device->queue[i], x->device->chunk_bytes);
}

/* The same memory serves all links of the device; it is much. */
uint32_t xdp_ring_room(void)
{
	return XDP_CHUNKS * FRAME_COUNT;
}

uint64_t xdp_ring_lost(const struct xdp_ring *x)
{
	uint64_t lost = 0;

	for (uint32_t i = 0; i < x->device->queues; i++) {
		struct xdp_statistics s = {0};
		socklen_t size = sizeof(s);

		if (!getsockopt(x->rx[i].fd, SOL_XDP, XDP_STATISTICS, &s, &size))
			lost += s.rx_dropped + s.rx_ring_full;
	}
	return lost;
}
