/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/endpoint.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "check/scope.h"
#include "base/fork.h"
#include "object/show.h"
#include "rsocket/flow.h"
#include "rsocket/tuned.h"
#include "rsocket/waiter.h"
#include "verbs/context.h"
#include "object/mr.h"
#include "object/qp.h"

/* Receives beyond those that the peer has credits for: for messages that need none, and for those not posted anew yet.
 */
#define SPARE_RECEIVES (8 + RS_LAZY_RECEIVES)

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* ---- memory ---- */

/* Memory of connections that are over, with its suspended region: the next connection need not map, touch and register
 * it. A local peer may still be writing there until show_settle(), which interrupts all processors, so it is done once
 * for many. */
struct pooled {
	struct ibv_mr *mr;
	uint64_t closed; /* show_closed() then */
};
static struct lock pool_lock = LOCK_RANKED(ENDPOINT_POOL);
static struct pooled pool[POOLED] GUARDED_BY(pool_lock); /* oldest first */
static uint32_t pooled GUARDED_BY(pool_lock);

static void forget_pool(void)
{
	lock_assert_unshared(&pool_lock);
	pooled = 0; /* the child does not have the memory */
}

static void endpoint_watch_forks(void)
{
	static const struct fork_handlers handlers = {.in_child = forget_pool};

	fork_watch(FORK_RSOCKET_ENDPOINT, &handlers);
}

/* The latest one that has settled, as it is in the caches; else the oldest, if there are many. */
static bool choose(struct hca *hca, struct ibv_pd *pd, size_t bytes, struct pooled *chosen) REQUIRES(pool_lock)
{
	uint32_t at = POOLED, fit = 0;

	for (uint32_t i = 0; i < pooled; i++) {
		if (pool[i].mr->pd != pd || pool[i].mr->length != bytes)
			continue;
		if (!fit++ || show_has_settled(hca, pool[i].closed))
			at = i;
	}
	if (!fit || (fit < POOLED / 2 && !show_has_settled(hca, pool[at].closed)))
		return false;
	*chosen = pool[at];
	memmove(&pool[at], &pool[at + 1], (--pooled - at) * sizeof(*pool));
	return true;
}

static struct ibv_mr *take_memory(struct hca *hca, struct ibv_pd *pd, size_t bytes)
{
	struct pooled chosen;
	struct ibv_mr *mr;
	uint8_t *at;
	bool any;

	lock_take(&pool_lock);
	any = choose(hca, pd, bytes, &chosen);
	lock_drop(&pool_lock);
	if (any) {
		if (!show_has_settled(hca, chosen.closed))
			show_settle(hca);
		mr_resume((struct mr *)chosen.mr);
		return chosen.mr;
	}
	at = show_memory(hca, bytes);
	if (!at)
		return NULL;
	mr = ibv_reg_mr(pd, at, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!mr)
		munmap(at, bytes);
	return mr;
}

/* After its QP is gone, so that no packet has the key. */
static void give_memory(struct hca *hca, struct ibv_mr *mr)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint8_t *at = mr->addr;
	size_t bytes = mr->length;
	bool full;

	pthread_once(&once, endpoint_watch_forks);
	mr_suspend((struct mr *)mr);
	lock_take(&pool_lock);
	full = pooled == POOLED;
	if (!full)
		pool[pooled++] = (struct pooled){mr, show_closed(hca)};
	lock_drop(&pool_lock);
	if (full) {
		ibv_dereg_mr(mr);
		munmap(at, bytes);
	}
}

static int endpoint_make_memory(struct rsocket *rs) REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;
	size_t lists = round_up(RS_TARGETS * sizeof(*s->targets) + rs->iomap_size * sizeof(*s->iomaps), 64);

	s->rx_size = (uint32_t)round_up(max_of(rs->rx_bytes, 2u * RS_LOW_WATER), 128);
	s->tx_size = (uint32_t)round_up(max_of(rs->tx_bytes, 2u * RS_LOW_WATER), 128);
	s->mr = take_memory(context_of(rs->id->verbs)->hca, rs->id->pd, lists + s->rx_size + s->tx_size);
	if (!s->mr)
		return -errno;
	s->targets = s->mr->addr;
	memset(s->targets, 0, lists);
	s->iomaps = (struct rs_iomap *)(s->targets + RS_TARGETS);
	s->rx = (uint8_t *)s->targets + lists;
	s->tx = s->rx + s->rx_size;
	return 0;
}

static int endpoint_make_qp(struct rsocket *rs) REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = rs->sq_size + RS_CONTROLS,
			.max_recv_wr = rs->rq_size + SPARE_RECEIVES,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = max_of(rs->inline_size, (uint32_t)sizeof(struct rs_iomap))},
	};

	s->cq = ibv_create_cq(rs->id->verbs, (int)(attr.cap.max_send_wr + attr.cap.max_recv_wr + 1), rs, NULL, 0);
	if (!s->cq)
		return -errno;
	((struct cq *)s->cq)->notify = rsocket_notify;
	attr.send_cq = attr.recv_cq = s->cq;
	if (rdma_create_qp(rs->id, NULL, &attr))
		return -errno;
	((struct qp *)rs->id->qp)->answers_first = true; /* completions only free pieces of the ring */
	return 0;
}

int endpoint_create(struct rsocket *rs)
{
	struct stream *s = &rs->stream;
	int err;

	check_pause();
	err = endpoint_make_memory(rs) ?: endpoint_make_qp(rs) ?: stream_post_receives(rs, rs->rq_size + SPARE_RECEIVES);
	check_resume();
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
		give_memory(context_of(s->mr->context)->hca, s->mr);
	s->cq = NULL;
	s->mr = NULL;
}

static bool host_is_big_endian(void)
{
	return __BYTE_ORDER == __BIG_ENDIAN;
}

static struct rs_sge_be endpoint_describe(const struct stream *s, const void *at, uint32_t length)
{
	return (struct rs_sge_be){to_be64((uintptr_t)at), to_be32(s->mr->rkey), to_be32(length)};
}

void endpoint_offer(struct rsocket *rs, struct rs_connect *to) REQUIRES(rs->lock)
{
	const struct stream *s = &rs->stream;

	*to = (struct rs_connect){
		.version = RS_VERSION,
		.flags = RS_FLAG_IOMAP | (host_is_big_endian() ? RS_FLAG_BIG_ENDIAN : 0),
		.credits = to_be16((uint16_t)rs->rq_size),
		.iomap_scale = rs_scale(rs->iomap_size),
		.targets = endpoint_describe(s, s->targets, RS_TARGETS),
		.buffer = endpoint_describe(s, s->rx, s->rx_size / 2),
	};
}

int endpoint_take(struct rsocket *rs, const void *data, size_t length)
{
	struct stream *s = &rs->stream;
	struct rs_peer peer;
	int err = rs_read_connect(&peer, data, length);

	if (err)
		return err;
	s->swap = host_is_big_endian() != peer.big_endian;
	s->remote = peer.targets;
	s->remote_next = 1 % s->remote.length;
	s->remote_iomaps = peer.iomaps;
	s->window[0] = peer.buffer;
	s->target_size = peer.buffer.length;
	s->next_target = 1;
	s->granted = (uint16_t)peer.credits;
	return 0;
}
