/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/xdp_device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/high_fd.h"
#include "link/packet_frame.h"

#define CHUNK_BYTES 2048u
#define LONG_CHUNK  4096u /* the most that there is */
#define CHUNK_HEAD  256u  /* of each chunk, which the kernel keeps free before a frame that comes */

static struct lock xdp_lock;
static struct xdp_device *list GUARDED_BY(&xdp_lock);

/* ---- rings ---- */

static int set_option(int fd, int option, const void *value, socklen_t bytes)
{
	return setsockopt(fd, SOL_XDP, option, value, bytes) ? -errno : 0;
}

int xdp_area_make(int fd, int option, uint32_t entries)
{
	return set_option(fd, option, &entries, sizeof(entries));
}

int xdp_area_map(struct xdp_area *a, int fd, off_t at, const struct xdp_ring_offset *o, uint32_t entries, size_t size)
{
	size_t bytes = o->desc + entries * size;
	uint8_t *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, at);

	if (m == MAP_FAILED)
		return -errno;
	madvise(m, bytes, MADV_DONTFORK);
	*a = (struct xdp_area){.producer = (void *)(m + o->producer),
			       .consumer = (void *)(m + o->consumer),
			       .entries = m + o->desc,
			       .mask = entries - 1,
			       .mapped = m,
			       .bytes = bytes};
	return 0;
}

void xdp_area_unmap(struct xdp_area *a)
{
	if (a->mapped)
		munmap(a->mapped, a->bytes);
	*a = (struct xdp_area){0};
}

/* ---- opening and closing ---- */

static int make_memory(const struct xdp_device *d, struct xdp_queue *q)
{
	size_t bytes = (size_t)XDP_CHUNKS * d->chunk_bytes;
	void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct xdp_umem_reg reg;

	if (m == MAP_FAILED)
		return -errno;
	q->memory = m;
	madvise(m, bytes, MADV_DONTFORK);
	memset(&reg, 0, sizeof(reg));
	reg.addr = (uintptr_t)m;
	reg.len = bytes;
	reg.chunk_size = d->chunk_bytes;
	return set_option(q->fd, XDP_UMEM_REG, &reg, sizeof(reg));
}

/* The memory needs a ring for what has been sent, and the socket one to receive: both are never used. */
static int map_rings(struct xdp_queue *q)
{
	struct xdp_mmap_offsets o = {0};
	socklen_t size = sizeof(o);
	int err = xdp_area_make(q->fd, XDP_UMEM_FILL_RING, XDP_CHUNKS) ?:
		  xdp_area_make(q->fd, XDP_UMEM_COMPLETION_RING, 1) ?: xdp_area_make(q->fd, XDP_RX_RING, 1);

	if (!err && getsockopt(q->fd, SOL_XDP, XDP_MMAP_OFFSETS, &o, &size))
		err = -errno;
	return err
		       ?: xdp_area_map(&q->fill, q->fd, (off_t)XDP_UMEM_PGOFF_FILL_RING, &o.fr, XDP_CHUNKS,
				       sizeof(uint64_t));
}

static void fill_first(const struct xdp_device *d, struct xdp_queue *q)
{
	uint64_t *entries;

	lock_assert_unshared(&q->fill_lock);
	entries = q->fill.entries;
	for (uint32_t i = 0; i < XDP_CHUNKS; i++)
		entries[i] = (uint64_t)i * d->chunk_bytes;
	/* release pairs with the kernel's look at the index before it reads the entries */
	atomic_store_explicit(q->fill.producer, XDP_CHUNKS, memory_order_release);
}

/* By copies, and not by the device's own access to the memory (zero-copy): so it is the same for every driver. */
static int bind_queue(const struct xdp_device *d, const struct xdp_queue *q)
{
	struct sockaddr_xdp a = {.sxdp_family = AF_XDP,
				 .sxdp_flags = XDP_COPY,
				 .sxdp_ifindex = (uint32_t)d->netif,
				 .sxdp_queue_id = (uint32_t)(q - d->queue)};

	return bind(q->fd, (struct sockaddr *)&a, sizeof(a)) ? -errno : 0;
}

static void queue_close(const struct xdp_device *d, struct xdp_queue *q)
{
	xdp_area_unmap(&q->fill);
	if (q->memory)
		munmap(q->memory, (size_t)XDP_CHUNKS * d->chunk_bytes);
	if (q->fd >= 0)
		close(q->fd);
	q->memory = NULL;
	q->fd = -1;
}

static int queue_open(const struct xdp_device *d, struct xdp_queue *q)
{
	int err;

	q->fd = high_fd(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
	if (q->fd < 0)
		return -errno;
	err = make_memory(d, q) ?: map_rings(q);
	if (!err) {
		fill_first(d, q);
		err = bind_queue(d, q);
	}
	if (err)
		queue_close(d, q);
	return err;
}

static void device_free(struct xdp_device *d)
{
	for (uint32_t i = 0; i < d->queues; i++)
		queue_close(d, &d->queue[i]);
	xdp_program_close(&d->program);
	free(d);
}

/* EINVAL: the interface has no more queues. */
static int open_queues(struct xdp_device *d)
{
	int err = 0;

	while (d->queues < XDP_QUEUES && !err) {
		err = queue_open(d, &d->queue[d->queues]);
		d->queues += !err;
	}
	return err == -EINVAL && d->queues ? 0 : err;
}

static struct xdp_device *device_make(int netif, uint32_t chunk_bytes)
{
	struct xdp_device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->netif = netif;
	d->users = 1;
	d->chunk_bytes = chunk_bytes;
	d->program = (struct xdp_program){-1, -1, -1, -1};
	return d;
}

static int device_open(int netif, uint32_t mtu, struct xdp_device **device) REQUIRES(xdp_lock)
{
	uint32_t frame = FRAME_ETHERNET + mtu, chunk = frame <= CHUNK_BYTES - CHUNK_HEAD ? CHUNK_BYTES : LONG_CHUNK;
	struct xdp_device *d;
	int err;

	if (frame > chunk - CHUNK_HEAD)
		return -EMSGSIZE;
	d = device_make(netif, chunk);
	if (!d)
		return -ENOMEM;
	err = xdp_program_load(&d->program, chunk - CHUNK_HEAD) ?:
	      xdp_program_attach(&d->program, netif) ?: open_queues(d);
	if (err) {
		device_free(d);
		return err;
	}
	d->next = list;
	list = d;
	*device = d;
	return 0;
}

int xdp_device_get(int netif, uint32_t mtu, struct xdp_device **device)
{
	int err = 0;

	lock_take(&xdp_lock);
	for (*device = list; *device && (*device)->netif != netif; *device = (*device)->next)
		;
	if (*device)
		(*device)->users++;
	else
		err = device_open(netif, mtu, device);
	lock_drop(&xdp_lock);
	return err;
}

void xdp_device_put(struct xdp_device *d)
{
	struct xdp_device **at = &list;

	lock_take(&xdp_lock);
	if (!--d->users) {
		while (*at != d)
			at = &(*at)->next;
		*at = d->next;
		device_free(d);
	}
	lock_drop(&xdp_lock);
}

/* The memory is not mapped there. */
void xdp_device_abandon(struct xdp_device *d)
{
	for (uint32_t i = 0; i < d->queues; i++) {
		struct xdp_queue *q = &d->queue[i];

		lock_assert_unshared(&q->fill_lock);
		q->fill.mapped = q->memory = NULL;
	}
	xdp_device_put(d);
}
