/* The packets that one run hands back.
 * SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "engine/internal.h"

void turn_done(struct turn *turn)
{
	while (turn->regions) /* the last first, which is sooner found */
		mr_put(turn->region[--turn->regions]);
	turn->packets = turn->iovs = turn->bounced = 0;
}

struct tx *turn_packet(struct qp *qp, struct turn *turn, uint8_t opcode, psn_t psn)
{
	struct tx *tx;

	if (turn->packets == TURN_PACKETS || turn->iovs + HCA_MAX_SGE > TURN_IOVECS ||
	    turn->regions + HCA_MAX_SGE > TURN_REGIONS || turn->bounced + TURN_LARGEST > TURN_BOUNCE)
		return NULL;
	tx = &turn->tx[turn->packets++];
	tx->packet = (struct packet){
		.opcode = opcode,
		.migrated = true, /* as adapters do that never migrate */
		.pkey = PKEY_DEFAULT,
		.dest_qpn = qp->attr.dest_qp_num,
		.psn = psn,
	};
	tx->path = &qp->path;
	tx->near = NULL;
	tx->iov = turn->iovs;
	tx->iovs = 0;
	return tx;
}

bool turn_has_room(struct turn *turn, uint32_t length, bool spare)
{
	uint32_t need = length + TURN_OVERHEAD;

	if (unlikely(turn->room < need + (spare ? 0 : TURN_SPARE))) {
		turn->full = true;
		return false;
	}
	if (turn->room != UINT32_MAX)
		turn->room -= need;
	return true;
}

void turn_drop_last(struct turn *turn, struct tx *tx)
{
	turn->packets--;
	turn->iovs = tx->iov; /* regions that it held are let go by turn_done() */
}

void turn_bytes(struct turn *turn, struct tx *tx, const void *bytes, uint32_t length)
{
	turn->iov[turn->iovs++] = (struct iovec){(void *)bytes, length};
	tx->iovs++;
	tx->packet.length += length;
}

/* Takes over the caller's hold on the region. */
static void hold(struct turn *turn, struct mr *mr)
{
	if (turn->regions && turn->region[turn->regions - 1] == mr)
		mr_put(mr); /* held already */
	else
		turn->region[turn->regions++] = mr;
}

/* Whoever sends touches memory as it likes: what does not allow that is copied first. */
static bool bounce(struct turn *turn, struct tx *tx, struct mr *mr, const char *at, uint32_t length)
{
	char *copy = turn->bounce + turn->bounced;
	bool ok = length <= TURN_BOUNCE - turn->bounced && mr_read_indirect(mr, copy, at, length);

	mr_put(mr);
	if (!ok)
		return false;
	turn->bounced += length;
	turn_bytes(turn, tx, copy, length);
	return true;
}

bool turn_region(struct turn *turn, struct tx *tx, struct mr *mr, const char *at, uint32_t length)
{
	if (unlikely(mr_is_indirect(mr)))
		return bounce(turn, tx, mr, at, length);
	turn_bytes(turn, tx, at, length);
	hold(turn, mr);
	return true;
}

void turn_refer(struct turn *turn, struct tx *tx, const struct ibv_sge *sge, uint32_t count, uint64_t offset,
		uint32_t length)
{
	struct sge_rest rest = {sge, count, length, offset};
	struct packet *p = &tx->packet;
	char *to = turn->bounce + turn->bounced;
	struct ibv_sge part;

	while (sge_next(&rest, &part)) {
		struct packet_piece piece = {part.addr, part.length, part.lkey};

		memcpy(to + p->pieces++ * sizeof(piece), &piece, sizeof(piece));
	}
	turn_bytes(turn, tx, to, packet_carries(p));
	turn->bounced += packet_carries(p);
	p->length = length;
}

/* Where the last packets of the turn were from the SGE's region, too, that; else NULL. */
static struct mr *held_region(const struct qp *qp, const struct turn *turn, const struct ibv_sge *sge)
{
	struct mr *mr = turn->regions ? turn->region[turn->regions - 1] : NULL;

	/* relaxed: it was seen to be open once we held it, so what else it says does not change before we let go */
	if (!mr || atomic_load_explicit(&mr->key, memory_order_relaxed) != sge->lkey || mr_is_indirect(mr) ||
	    !mr_allows(mr, qp->pd, sge->addr, sge->length, MR_LOCAL))
		return NULL;
	return mr;
}

struct tx *turn_repeat(struct qp *qp, struct turn *turn, const struct ibv_sge *sge, uint64_t offset, uint32_t length)
{
	const struct ibv_sge part = {sge->addr + offset, length, sge->lkey};
	struct mr *mr = held_region(qp, turn, &part);
	struct tx *tx = &turn->tx[turn->packets];

	if (!mr || turn->packets == TURN_PACKETS || turn->iovs + HCA_MAX_SGE > TURN_IOVECS)
		return NULL;
	*tx = tx[-1];
	tx->packet.psn = psn_add(tx->packet.psn, 1);
	tx->packet.ack_request = false;
	tx->packet.length = 0;
	tx->iov = turn->iovs;
	tx->iovs = 0;
	turn_bytes(turn, tx, mr_at(mr, part.addr), length);
	turn->packets++;
	return tx;
}

bool turn_gather(struct qp *qp, struct turn *turn, struct tx *tx, const struct ibv_sge *sge, uint32_t count,
		 uint64_t offset, uint32_t length)
{
	struct sge_rest rest = {sge, count, length, offset};
	struct ibv_sge part;

	while (sge_next(&rest, &part)) {
		struct mr *mr = held_region(qp, turn, &part);

		if (likely(mr)) {
			turn_bytes(turn, tx, mr_at(mr, part.addr), part.length);
			continue;
		}
		mr = sge_region(qp->hca, qp->pd, &part, 0);
		if (!mr || !turn_region(turn, tx, mr, mr_at(mr, part.addr), part.length))
			return false;
	}
	return true;
}
