/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/packet_ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/base.h"
#include "base/high_fd.h"
#include "base/tsan.h"
#include "link/tuned.h"

#define SLOT_BYTES     2048u
#define JUMBO_SLOT     16384u
#define BLOCK_BYTES    65536u
#define SLOT_OVERHEAD  128u /* more than the kernel's header and the Ethernet one */
#define COPY_THRESHOLD 1    /* any frame that is longer than a slot waits in the socket, whole */
#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23 /* Linux 4.20 */
#endif

static int packet_ring_set(int fd, int name, int value)
{
	return setsockopt(fd, SOL_PACKET, name, &value, sizeof(value)) ? -errno : 0;
}

static int make_slots(struct packet_ring *r, uint32_t mtu)
{
	bool jumbo = mtu + SLOT_OVERHEAD > SLOT_BYTES;
	uint32_t bytes = jumbo ? JUMBO_BYTES : RING_BYTES;
	struct tpacket_req req;
	void *at;

	r->slot_bytes = jumbo ? JUMBO_SLOT : SLOT_BYTES;
	r->slots = bytes / r->slot_bytes;
	req = (struct tpacket_req){BLOCK_BYTES, bytes / BLOCK_BYTES, r->slot_bytes, r->slots};
	if (setsockopt(r->fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)))
		return -errno;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	madvise(at, bytes, MADV_DONTFORK);
	r->memory = at;
	return 0;
}

int packet_ring_open(struct packet_ring *r, uint32_t mtu)
{
	int err;

	*r = (struct packet_ring){.fd = high_fd(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0))};
	if (r->fd < 0)
		return -errno;
	err = packet_ring_set(r->fd, PACKET_VERSION, TPACKET_V2) ?:
	      packet_ring_set(r->fd, PACKET_COPY_THRESH, COPY_THRESHOLD) ?:
	      packet_ring_set(r->fd, PACKET_IGNORE_OUTGOING, 1) ?: make_slots(r, mtu);
	if (err)
		packet_ring_close(r);
	return err;
}

int packet_ring_begin(struct packet_ring *r, int netif)
{
	/* all protocols: then the kernel shows a frame here before it looks at it itself */
	struct sockaddr_ll a = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = netif};

	return bind(r->fd, (struct sockaddr *)&a, sizeof(a)) ? -errno : 0;
}

void packet_ring_close(struct packet_ring *r)
{
	if (r->memory)
		munmap(r->memory, (size_t)r->slot_bytes * r->slots);
	if (r->fd >= 0)
		close(r->fd);
	*r = (struct packet_ring){.fd = -1};
}

static struct tpacket2_hdr *packet_ring_at(const struct packet_ring *r)
{
	return (struct tpacket2_hdr *)(r->memory + (size_t)r->at * r->slot_bytes);
}

bool packet_ring_look(const struct packet_ring *r, struct packet_slot *slot)
{
	struct tpacket2_hdr *h = packet_ring_at(r);
	/* acquire pairs with the kernel's barrier before it hands the slot over */
	uint32_t status = atomic_load_explicit((_Atomic uint32_t *)&h->tp_status, memory_order_acquire);

	if (!(status & TP_STATUS_USER))
		return false;
	for (uint32_t i = CACHE_LINE; i < FRAME_FETCH; i += CACHE_LINE)
		__builtin_prefetch((const char *)h + i);
	tsan_acquire(tsan_key(ETH_P_ALL));
	slot->length = h->tp_snaplen;
	slot->bytes = status & TP_STATUS_COPY ? NULL : (const uint8_t *)h + h->tp_mac;
	slot->cut = slot->bytes && h->tp_snaplen < h->tp_len;
	return true;
}

int packet_ring_read(const struct packet_ring *r, void *head, uint32_t head_bytes, void *rest, uint32_t rest_bytes)
{
	struct iovec iov[2] = {{head, head_bytes}, {rest, rest_bytes}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n = recvmsg(r->fd, &m, MSG_DONTWAIT);

	return n < 0 ? -errno : m.msg_flags & MSG_TRUNC ? -EMSGSIZE : (int)n;
}

void packet_ring_drop(struct packet_ring *r)
{
	/* release pairs with the kernel's look at the slot before it writes there */
	atomic_store_explicit((_Atomic uint32_t *)&packet_ring_at(r)->tp_status, TP_STATUS_KERNEL,
			      memory_order_release);
	r->at = r->at + 1 == r->slots ? 0 : r->at + 1;
}

/* A train takes one slot, as long as nothing on the way cuts it; a lone packet, too. */
uint32_t packet_ring_room(const struct packet_ring *r)
{
	return 2 * r->slots * SLOT_BYTES;
}

uint32_t packet_ring_lost(const struct packet_ring *r)
{
	struct tpacket_stats stats = {0};
	socklen_t size = sizeof(stats);

	return getsockopt(r->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size) ? 0 : stats.tp_drops;
}
