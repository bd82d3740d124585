/* SPDX-License-Identifier: BSD-2-Clause */
/* The tx batch: the packets that one run makes. The thread that runs the engine owns it; batch_done() releases its
 * regions. */

#include "engine/tx_batch.h"

#include <string.h>

#include "base/trace.h"
#include "engine/hooks.h"

void batch_done(struct tx_batch *batch)
{
	while (batch->regions) /* the last first, as it is found sooner */
		mr_put(batch->region[--batch->regions]);
	batch->packets = batch->iovs = batch->bounced = batch->ahead.length = 0;
}

struct tx *batch_packet(struct qp *qp, struct tx_batch *batch, uint8_t opcode, psn_t psn)
{
	struct tx *tx;

	if (batch->packets == BATCH_PACKETS || batch->iovs + HCA_MAX_SGE > BATCH_IOVECS ||
	    batch->regions + HCA_MAX_SGE > BATCH_REGIONS || batch->bounced + BATCH_LARGEST > BATCH_BOUNCE)
		return NULL;
	tx = &batch->tx[batch->packets++];
	packet_begin(&tx->packet, opcode, qp->attr.dest_qp_num, psn);
	tx->path = &qp->path;
	tx->near = NULL;
	tx->iov = batch->iovs;
	tx->iovs = 0;
	return tx;
}

bool batch_has_room(struct tx_batch *batch, uint32_t length, bool spare)
{
	uint32_t need = length + BATCH_OVERHEAD;

	if (unlikely(batch->room < need + (spare ? 0 : BATCH_SPARE))) {
		batch->full = true;
		return false;
	}
	if (batch->room != UINT32_MAX)
		batch->room -= need;
	return true;
}

void batch_drop_last(struct tx_batch *batch, struct tx *tx)
{
	batch->packets--;
	batch->iovs = tx->iov; /* batch_done() releases its regions */
}

void batch_bytes(struct tx_batch *batch, struct tx *tx, const void *bytes, uint32_t length)
{
	batch->iov[batch->iovs++] = (struct iovec){(void *)bytes, length};
	tx->iovs++;
	tx->packet.length += length;
}

/* Takes over the caller's reference to the region. */
static void tx_batch_hold(struct tx_batch *batch, struct mr *mr)
{
	if (batch->regions && batch->region[batch->regions - 1] == mr)
		mr_put(mr); /* the tx batch has a reference already */
	else
		batch->region[batch->regions++] = mr;
}

/* Reads the bytes of a packet and, if that costs no more, those of the packets behind it. These are of the same piece
 * of the same request, whose memory does not change before it is complete. */
static bool read_ahead(struct tx_batch *batch, struct mr *mr, const char *at, uint32_t length, uint32_t follow)
{
	const struct memory_ops *ops = &memory_ops[mr->kind];
	uint32_t room = BATCH_BOUNCE - batch->bounced;
	char *copy = batch->bounce + batch->bounced;

	if (length > room)
		return false;
	length += min_of(min_of(follow, ops->ahead), room - length);
	if (!ops->read(mr->handle, copy, at, length))
		return false;
	batch->bounced += length;
	batch->ahead.mr = mr;
	batch->ahead.at = at;
	batch->ahead.bytes = copy;
	batch->ahead.length = length;
	return true;
}

/* Copies payload of a region that links cannot access directly. */
static bool bounce(struct tx_batch *batch, struct tx *tx, struct mr *mr, const char *at, uint32_t length,
		   uint32_t follow)
{
	bool is_there = batch->ahead.length >= length && batch->ahead.mr == mr && batch->ahead.at == at,
	     ok = is_there || read_ahead(batch, mr, at, length, follow);

	mr_put(mr);
	if (!ok)
		return false;
	batch_bytes(batch, tx, batch->ahead.bytes, length);
	batch->ahead.at += length;
	batch->ahead.bytes += length;
	batch->ahead.length -= length;
	return true;
}

bool batch_region(struct tx_batch *batch, struct tx *tx, struct mr *mr, const char *at, uint32_t length,
		  uint32_t follow)
{
	if (unlikely(mr_is_indirect(mr)))
		return bounce(batch, tx, mr, at, length, follow);
	batch_bytes(batch, tx, at, length);
	tx_batch_hold(batch, mr);
	return true;
}

void batch_refer(struct qp *qp, struct tx_batch *batch, struct tx *tx, const struct ibv_sge *sge, uint32_t count,
		 uint64_t offset, uint32_t length)
{
	struct sge_rest rest = {sge, count, length, offset};
	struct packet *p = &tx->packet;
	char *to = batch->bounce + batch->bounced;
	struct ibv_sge part;

	while (sge_next(&rest, &part)) {
		struct packet_piece piece = {part.addr, part.length, part.lkey ^ qp->hca->keys.lkey};

		memcpy(to + p->pieces++ * sizeof(piece), &piece, sizeof(piece));
	}
	batch_bytes(batch, tx, to, packet_carries(p));
	batch->bounced += packet_carries(p);
	p->length = length;
}

/* The region of the last packets in the tx batch, if the SGE is in it too; else NULL. */
static struct mr *held_region(const struct qp *qp, const struct tx_batch *batch, const struct ibv_sge *sge)
{
	struct mr *mr = batch->regions ? batch->region[batch->regions - 1] : NULL;

	/* relaxed: the region was open when the tx batch took its reference, so its other fields cannot change
	 * before batch_done() */
	if (!mr || atomic_load_explicit(&mr->lkey, memory_order_relaxed) != sge->lkey || mr_is_indirect(mr) ||
	    !mr_allows(mr, qp->pd, sge->addr, sge->length, 0))
		return NULL;
	return mr;
}

struct tx *batch_repeat(struct qp *qp, struct tx_batch *batch, const struct ibv_sge *sge, uint64_t offset,
			uint32_t length)
{
	const struct ibv_sge part = {sge->addr + offset, length, sge->lkey};
	struct mr *mr = held_region(qp, batch, &part);
	struct tx *tx = &batch->tx[batch->packets];

	if (!mr || batch->packets == BATCH_PACKETS || batch->iovs + HCA_MAX_SGE > BATCH_IOVECS)
		return NULL;
	*tx = tx[-1];
	tx->packet.psn = psn_add(tx->packet.psn, 1);
	tx->packet.ack_request = false;
	tx->packet.length = 0;
	tx->iov = batch->iovs;
	tx->iovs = 0;
	batch_bytes(batch, tx, mr_at(mr, part.addr), length);
	batch->packets++;
	trace(build, qp->base.qp_num, tx->packet.dest_qpn, tx->packet.psn.v, tx->packet.opcode, length, tx->position);
	return tx;
}

bool batch_gather(struct qp *qp, struct tx_batch *batch, struct tx *tx, const struct ibv_sge *sge, uint32_t count,
		  uint64_t offset, uint32_t length)
{
	struct sge_rest rest = {sge, count, length, offset};
	struct ibv_sge part;

	while (sge_next(&rest, &part)) {
		struct mr *mr = held_region(qp, batch, &part);

		if (likely(mr)) {
			batch_bytes(batch, tx, mr_at(mr, part.addr), part.length);
			continue;
		}
		mr = sge_region(qp->hca, qp->pd, &part, 0);
		if (!mr || !batch_region(batch, tx, mr, mr_at(mr, part.addr), part.length,
					 (uint32_t)(rest.sge->length - rest.offset)))
			return false;
	}
	return true;
}
