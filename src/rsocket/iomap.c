/* SPDX-License-Identifier: BSD-2-Clause */
/* Direct placement: buffers that the peer may write to by their offset. Ours are told to the peer in its list of
 * iomaps, with the next data; the peer's stand in ours. */
#include <byteswap.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check/scope.h"
#include "rsocket/rsocket.h"

#define LOCAL UINT32_MAX

struct map {
	struct list link; /* in stream.maps, or maps_pending: not told yet */
	struct ibv_mr *mr;
	uint64_t offset;
	uint32_t index; /* in the peer's list; LOCAL: not there */
};

static bool index_is_free(const struct stream *s, uint32_t index)
{
	const struct list *lists[] = {&s->maps, &s->maps_pending};

	for (int i = 0; i < 2; i++)
		list_each (l, lists[i])
			if (container_of(l, struct map, link)->index == index)
				return false;
	return true;
}

static bool iomap_can_send(struct rsocket *rs)
{
	return rsocket_state(rs) != RS_CONNECTED || stream_can_send(rs);
}

static int rsocket_iomap_publish(struct rsocket *rs, struct map *m) REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;
	struct rs_iomap entry = {m->offset, {(uintptr_t)m->mr->addr, m->mr->rkey, (uint32_t)m->mr->length}};
	struct ibv_sge sge = {.addr = (uintptr_t)&entry, .length = sizeof(entry)};
	uint64_t to = s->remote.address + s->remote.length * sizeof(struct rs_sge) + m->index * sizeof(entry);

	if (s->swap)
		entry = (struct rs_iomap){
			bswap_64(entry.offset),
			{bswap_64(entry.at.address), bswap_32(entry.at.key), bswap_32(entry.at.length)}};
	return stream_post_data(rs, &sge, 1, IBV_WR_RDMA_WRITE_WITH_IMM, rs_message(RS_OP_IOMAP, m->index), 0,
				IBV_SEND_INLINE, to, s->remote.key);
}

int iomap_publish(struct rsocket *rs, int flags)
{
	struct stream *s = &rs->stream;
	bool waits = !(flags & MSG_DONTWAIT) && !atomic_load_explicit(&rs->nonblocking, memory_order_relaxed);
	int err = 0;

	while (!err && !list_empty(&s->maps_pending)) {
		struct map *m;

		if (!iomap_can_send(rs)) {
			err = waits ? rsocket_await(rs, iomap_can_send, NEVER) : -EAGAIN;
			continue;
		}
		if (rsocket_state(rs) != RS_CONNECTED)
			return -ECONNRESET;
		m = container_of(list_pop(&s->maps_pending), struct map, link);
		list_append(&s->maps, &m->link);
		err = rsocket_iomap_publish(rs, m);
	}
	return err;
}

static void free_map(struct map *m)
{
	list_remove(&m->link);
	ibv_dereg_mr(m->mr);
	free(m);
}

void iomap_forget(struct rsocket *rs)
{
	struct list *lists[] = {&rs->stream.maps, &rs->stream.maps_pending};

	for (int i = 0; i < 2; i++)
		list_each_safe (l, lists[i])
			free_map(container_of(l, struct map, link));
}

static int choose_index(const struct stream *s, int prot, uint32_t *index)
{
	*index = LOCAL;
	if (!(prot & PROT_WRITE))
		return 0;
	for (*index = 0; *index < s->remote_iomaps; ++*index)
		if (index_is_free(s, *index))
			return 0;
	return -ENOMEM;
}

static int64_t iomap_map(struct rsocket *rs, void *buf, size_t length, int prot, int64_t offset) REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;
	int access = IBV_ACCESS_LOCAL_WRITE | (prot & PROT_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0);
	struct map *m;
	uint32_t index;
	int err;

	if (is_datagram(rs) || !rs->id || !rs->id->pd || prot & ~(PROT_WRITE | PROT_NONE))
		return -EINVAL;
	err = choose_index(s, prot, &index);
	if (err)
		return err;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	check_pause();
	m->mr = ibv_reg_mr(rs->id->pd, buf, length, access);
	check_resume();
	if (!m->mr) {
		err = -errno;
		free(m);
		return err;
	}
	m->index = index;
	m->offset = offset == -1 ? (uintptr_t)buf : (uint64_t)offset;
	list_append(index == LOCAL ? &s->maps : &s->maps_pending, &m->link);
	return (int64_t)m->offset;
}

PUBLIC off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct rsocket *rs = rsocket_get(socket);
	int64_t result;

	if (!rs)
		return fail_minus(EBADF);
	lock_take(&rs->lock);
	result = iomap_map(rs, buf, len, prot, offset);
	lock_drop(&rs->lock);
	rsocket_put(rs);
	/* an address may look negative, but no error does so that is near 0 */
	return result < 0 && result > -4096 ? fail_minus((int)-result) : result;
}

static int iomap_unmap(struct rsocket *rs, const void *buf, size_t length) REQUIRES(rs->lock)
{
	struct list *lists[] = {&rs->stream.maps, &rs->stream.maps_pending};

	for (int i = 0; i < 2; i++)
		list_each_safe (l, lists[i]) {
			struct map *m = container_of(l, struct map, link);

			if (m->mr->addr != buf || m->mr->length != length)
				continue;
			free_map(m);
			return 0;
		}
	return -EINVAL;
}

PUBLIC int riounmap(int socket, void *buf, size_t len)
{
	struct rsocket *rs = rsocket_get(socket);
	int err;

	if (!rs)
		return fail_minus(EBADF);
	lock_take(&rs->lock);
	err = iomap_unmap(rs, buf, len);
	lock_drop(&rs->lock);
	rsocket_put(rs);
	return err ? fail_minus(-err) : 0;
}

/* ---- writing there ---- */

static bool iomap_find(const struct rsocket *rs, uint64_t offset, struct rs_iomap *found) REQUIRES(rs->lock)
{
	const struct stream *s = &rs->stream;

	for (uint32_t i = 0; i < rs->iomap_size; i++) {
		struct rs_iomap m = s->iomaps[i];

		if (s->swap)
			m = (struct rs_iomap){bswap_64(m.offset),
					      {bswap_64(m.at.address), bswap_32(m.at.key), bswap_32(m.at.length)}};
		if (offset < m.offset || offset >= m.offset + m.at.length)
			continue;
		*found = m;
		return true;
	}
	return false;
}

static int64_t write_at(struct rsocket *rs, const char *from, size_t left, uint64_t offset, int flags)
	REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;
	size_t all = left;
	int err = iomap_publish(rs, flags);
	bool waits = !(flags & MSG_DONTWAIT) && !atomic_load_explicit(&rs->nonblocking, memory_order_relaxed);

	while (left && !err) {
		struct ibv_sge sge[2];
		struct rs_iomap m;
		uint32_t n;

		if (!iomap_find(rs, offset, &m))
			break;
		stream_process(rs);
		if (!iomap_can_send(rs))
			err = waits ? rsocket_await(rs, iomap_can_send, NEVER) : -EAGAIN;
		if (!err && (rsocket_state(rs) != RS_CONNECTED || rs->write_shut))
			err = -ECONNRESET;
		if (err)
			break;
		n = (uint32_t)min_of(min_of(left, (size_t)(s->tx_size - s->tx_used)), (size_t)(64 << 10));
		n = (uint32_t)min_of((uint64_t)n, m.offset + m.at.length - offset);
		err = stream_post_data(rs, sge, stream_stage(rs, from, n, sge), IBV_WR_RDMA_WRITE, 0, n, 0,
				       m.at.address + offset - m.offset, m.at.key);
		from += n;
		offset += n;
		left -= n;
	}
	return left == all && err ? err : (int64_t)(all - left);
}

PUBLIC size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	struct rsocket *rs = rsocket_get(socket);
	int64_t result = -EINVAL;

	if (!rs)
		return (size_t)fail_minus(EBADF);
	lock_take(&rs->lock);
	if (!is_datagram(rs) && rsocket_state(rs) == RS_CONNECTED)
		result = write_at(rs, buf, count, (uint64_t)offset, flags);
	lock_drop(&rs->lock);
	rsocket_put(rs);
	return result < 0 ? (size_t)fail_minus((int)-result) : (size_t)result;
}
