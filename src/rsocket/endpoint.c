/* A stream's queue pair, completion queue and memory. The memory is one piece: the list of targets, the iomaps, what is
 * received, what is sent. SPDX-License-Identifier: BSD-2-Clause */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "object/show.h"
#include "rsocket/rsocket.h"
#include "verbs/context.h"

#define POOLED	       32
#define SPARE_RECEIVES 8 /* for messages that need no credit */

static void notify(struct cq *cq)
{
	rsocket_wake(cq->base.cq_context);
}

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* ---- memory ---- */

/* Of connections that are over: the next ones need not ask the kernel for it, nor be the first to touch it. */
static struct lock pool_lock; /* a leaf */
static struct {
	uint8_t *at;
	size_t bytes;
} pool[POOLED];
static uint32_t pooled;

static void forget_pool(void)
{
	pool_lock = (struct lock){0};
	pooled = 0; /* the child does not have it */
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forget_pool);
}

static uint8_t *take_memory(struct hca *hca, size_t bytes)
{
	uint8_t *at = NULL;

	lock_take(&pool_lock);
	for (uint32_t i = pooled; i-- && !at;) {
		if (pool[i].bytes != bytes)
			continue;
		at = pool[i].at;
		pool[i] = pool[--pooled];
	}
	lock_drop(&pool_lock);
	return at ?: show_memory(hca, bytes);
}

static void give_memory(uint8_t *at, size_t bytes)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	bool full;

	pthread_once(&once, watch_forks);
	lock_take(&pool_lock);
	full = pooled == POOLED;
	if (!full) {
		pool[pooled].at = at;
		pool[pooled++].bytes = bytes;
	}
	lock_drop(&pool_lock);
	if (full)
		munmap(at, bytes);
}

static int make_memory(struct rsocket *rs)
{
	struct stream *s = &rs->stream;
	size_t lists = round_up(RS_TARGETS * sizeof(*s->targets) + rs->iomap_size * sizeof(*s->iomaps), 64);

	s->rx_size = (uint32_t)round_up(max_of(rs->rx_bytes, 2u * RS_LOW_WATER), 128);
	s->tx_size = (uint32_t)round_up(max_of(rs->tx_bytes, 2u * RS_LOW_WATER), 128);
	s->memory_bytes = lists + s->rx_size + s->tx_size;
	s->memory = take_memory(context_of(rs->id->verbs)->hca, s->memory_bytes);
	if (!s->memory)
		return -errno;
	memset(s->memory, 0, lists);
	s->targets = (struct rs_sge *)s->memory;
	s->iomaps = (struct rs_iomap *)(s->targets + RS_TARGETS);
	s->rx = s->memory + lists;
	s->tx = s->rx + s->rx_size;
	s->mr = ibv_reg_mr(rs->id->pd, s->memory, s->memory_bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return s->mr ? 0 : -errno;
}

static int make_qp(struct rsocket *rs)
{
	struct stream *s = &rs->stream;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = rs->sq_size + RS_CONTROLS,
			.max_recv_wr = rs->rq_size + SPARE_RECEIVES,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = max_of(rs->inline_size, (uint32_t)sizeof(struct rs_iomap))},
	};

	s->cq = ibv_create_cq(rs->id->verbs, (int)(attr.cap.max_send_wr + attr.cap.max_recv_wr + 1), rs, NULL, 0);
	if (!s->cq)
		return -errno;
	((struct cq *)s->cq)->notify = notify;
	attr.send_cq = attr.recv_cq = s->cq;
	return rdma_create_qp(rs->id, NULL, &attr) ? -errno : 0;
}

int endpoint_create(struct rsocket *rs)
{
	struct stream *s = &rs->stream;
	int err = make_memory(rs) ?: make_qp(rs) ?: stream_post_receives(rs, rs->rq_size + SPARE_RECEIVES);

	if (err)
		return err;
	s->slots = rs->sq_size;
	s->rx_free = s->rx_size / 2;
	s->rx_publish = 1;
	return 0;
}

void endpoint_destroy(struct rsocket *rs)
{
	struct stream *s = &rs->stream;

	if (s->cq)
		ibv_destroy_cq(s->cq);
	if (s->mr)
		ibv_dereg_mr(s->mr);
	if (s->memory)
		give_memory(s->memory, s->memory_bytes);
	s->cq = NULL;
	s->mr = NULL;
	s->memory = NULL;
}

static bool host_is_big_endian(void)
{
	return __BYTE_ORDER == __BIG_ENDIAN;
}

static struct rs_sge_be describe(const struct stream *s, const void *at, uint32_t length)
{
	return (struct rs_sge_be){to_be64((uintptr_t)at), to_be32(s->mr->rkey), to_be32(length)};
}

void endpoint_offer(struct rsocket *rs, struct rs_connect *to)
{
	const struct stream *s = &rs->stream;

	*to = (struct rs_connect){
		.version = RS_VERSION,
		.flags = RS_FLAG_IOMAP | (host_is_big_endian() ? RS_FLAG_BIG_ENDIAN : 0),
		.credits = to_be16((uint16_t)rs->rq_size),
		.iomap_scale = rs_scale(rs->iomap_size),
		.targets = describe(s, s->targets, RS_TARGETS),
		.buffer = describe(s, s->rx, s->rx_size / 2),
	};
}

static struct rs_sge sge_of(struct rs_sge_be b)
{
	return (struct rs_sge){from_be64(b.address), from_be32(b.key), from_be32(b.length)};
}

int endpoint_take(struct rsocket *rs, const void *data, size_t length)
{
	struct stream *s = &rs->stream;
	struct rs_connect from;

	if (length < sizeof(from))
		return -EPROTO;
	memcpy(&from, data, sizeof(from));
	if (from.version != RS_VERSION || !from_be32(from.targets.length))
		return -EPROTO;
	s->swap = host_is_big_endian() != !!(from.flags & RS_FLAG_BIG_ENDIAN);
	s->remote = sge_of(from.targets);
	s->remote_next = 1 % s->remote.length;
	s->remote_iomaps = from.flags & RS_FLAG_IOMAP ? rs_unscale(from.iomap_scale) : 0;
	s->window[0] = sge_of(from.buffer);
	s->next_target = 1;
	s->granted = from_be16(from.credits);
	return 0;
}
