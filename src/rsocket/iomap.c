/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/iomap.h"

#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check/scope.h"
#include "rsocket/await.h"
#include "rsocket/flow.h"
#include "rsocket/table.h"
#include "rsocket/tuned.h"

/* A buffer that the peer may write to by its offset. It is told to the peer, in the peer's list of iomaps, before the
 * next data. */
struct map {
	struct list link; /* in stream.maps, or maps_pending: not told yet */
	struct ibv_mr *mr;
	uint64_t offset;
	uint32_t index; /* in the peer's list; LOCAL: not there */
};
#define LOCAL UINT32_MAX

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

static int publish(struct rsocket *rs, struct map *m) REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;
	struct rs_iomap entry = {m->offset, {(uintptr_t)m->mr->addr, m->mr->rkey, (uint32_t)m->mr->length}};
	struct ibv_sge sge = {.addr = (uintptr_t)&entry, .length = sizeof(entry)};
	uint64_t to = s->remote.address + s->remote.length * sizeof(struct rs_sge) + m->index * sizeof(entry);

	if (s->swap)
		entry = rs_iomap_swap(entry);
	return stream_post_data(rs, &sge, 1, IBV_WR_RDMA_WRITE_WITH_IMM, rs_message(RS_OP_IOMAP, m->index), 0,
				IBV_SEND_INLINE, to, s->remote.key);
}

int iomap_publish(struct rsocket *rs, int flags)
{
	struct stream *s = &rs->stream;
	int err = 0;

	while (!err && !list_empty(&s->maps_pending)) {
		struct map *m;

		err = rsocket_ready(rs, iomap_can_send, flags, NEVER);
		if (err || rsocket_state(rs) != RS_CONNECTED)
			return err ?: -ECONNRESET;
		m = container_of(list_pop(&s->maps_pending), struct map, link);
		list_append(&s->maps, &m->link);
		err = publish(rs, m);
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

static int iomap_map(struct rsocket *rs, void *buf, size_t length, int prot, int64_t offset, int64_t *at)
	REQUIRES(rs->lock)
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
	*at = (int64_t)m->offset;
	return 0;
}

PUBLIC off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	int64_t at = 0;
	int err = WITH_RSOCKET(socket, rs, int, iomap_map(rs, buf, len, prot, offset, &at));

	return err ?: at;
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
	return WITH_RSOCKET(socket, rs, int, iomap_unmap(rs, buf, len));
}

/* ---- writing there ---- */

static bool iomap_find(const struct rsocket *rs, uint64_t offset, struct rs_iomap *found) REQUIRES(rs->lock)
{
	const struct stream *s = &rs->stream;

	for (uint32_t i = 0; i < rs->iomap_size; i++) {
		struct rs_iomap m = s->iomaps[i];

		if (s->swap)
			m = rs_iomap_swap(m);
		if (offset < m.offset || offset >= m.offset + m.at.length)
			continue;
		*found = m;
		return true;
	}
	return false;
}

/* Copies to the send ring. The entries of `sge` that are used. */
static int stage(struct stream *s, const char *from, uint32_t length, struct ibv_sge sge[2])
{
	int n = stream_place(s, length, sge);

	memcpy((void *)(uintptr_t)sge[0].addr, from, sge[0].length);
	memcpy((void *)(uintptr_t)sge[1].addr, from + sge[0].length, sge[1].length);
	return n;
}

static int64_t write_at(struct rsocket *rs, const char *from, size_t left, uint64_t offset, int flags)
	REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;
	size_t all = left;
	int err = iomap_publish(rs, flags);

	while (left && !err) {
		struct ibv_sge sge[2];
		struct rs_iomap m;
		uint32_t n;

		if (!iomap_find(rs, offset, &m))
			break;
		err = rsocket_ready(rs, iomap_can_send, flags, NEVER);
		if (!err && (rsocket_state(rs) != RS_CONNECTED || rs->write_shut))
			err = -ECONNRESET;
		if (err)
			break;
		n = (uint32_t)min_of(min_of(left, (size_t)(s->tx_size - s->tx_used)), (size_t)IOMAP_WRITE_MAX);
		n = (uint32_t)min_of((uint64_t)n, m.offset + m.at.length - offset);
		err = stream_post_data(rs, sge, stage(s, from, n, sge), IBV_WR_RDMA_WRITE, 0, n, 0,
				       m.at.address + offset - m.offset, m.at.key);
		from += n;
		offset += n;
		left -= n;
	}
	return left == all && err ? err : (int64_t)(all - left);
}

PUBLIC size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	return (size_t)WITH_RSOCKET(socket, rs, int64_t,
				    is_datagram(rs) || rsocket_state(rs) != RS_CONNECTED
					    ? -EINVAL
					    : write_at(rs, buf, count, (uint64_t)offset, flags));
}
