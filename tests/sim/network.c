/* SPDX-License-Identifier: BSD-2-Clause */
#include "network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "own.h"
#include "wire/icrc.h"

struct flight {
	struct due due;
	uint32_t from, to;
	uint32_t length, mtu;
	bool congestion;
	bool damaged; /* in bytes that the ICRC covers */
	uint8_t bytes[];
};

static struct packet arrived;
static struct flight *opened; /* holds the payload of `arrived` */

void network_init(struct network *n, const struct quality *q, uint64_t seed)
{
	memset(n, 0, sizeof(*n));
	n->quality = *q;
	n->dice.state = seed;
	n->digest = 1;
	for (uint32_t i = 0; i < NETWORK_NODES; i++) {
		if (q->ipv4)
			memcpy(n->gid[i].raw, (uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, i + 1}, 16);
		else
			memcpy(n->gid[i].raw, (uint8_t[16]){0xfd, [15] = i + 1}, 16);
	}
}

void network_fini(struct network *n)
{
	due_fini(&n->flights);
	free(opened);
	opened = NULL;
}

static struct flight *flight_of(struct due *d)
{
	return container_of(d, struct flight, due);
}

static uint32_t node_of(const struct network *n, const union ibv_gid *gid)
{
	for (uint32_t i = 0; i < NETWORK_NODES; i++)
		if (!memcmp(&n->gid[i], gid, sizeof(*gid)))
			return i;
	abort();
}

static struct icrc_flow flow_of(const struct network *n, uint32_t from, uint32_t to)
{
	struct icrc_flow flow;

	icrc_flow_init(&flow, n->gid[from].raw, n->gid[to].raw, ROCE_PORT, ROCE_PORT);
	return flow;
}

static struct flight *pack(const struct network *n, uint32_t from, uint32_t to, const struct tx_batch *batch,
			   const struct tx *tx)
{
	struct icrc_flow flow = flow_of(n, from, to);
	uint8_t header[PACKET_HEADERS];
	size_t at = packet_encode(&tx->packet, header), pad = packet_pad(tx->packet.length);
	struct flight *f = own(NULL, sizeof(*f) + packet_bytes(&tx->packet));
	uint32_t payload = 0;

	f->from = from;
	f->to = to;
	f->length = packet_bytes(&tx->packet);
	f->congestion = f->damaged = false;
	memcpy(f->bytes, header, at);
	for (uint32_t i = 0; i < tx->iovs; i++) {
		const struct iovec *iov = &batch->iov[tx->iov + i];

		payload += iov->iov_len;
		assert(payload <= tx->packet.length);
		memcpy(f->bytes + at, iov->iov_base, iov->iov_len);
		at += iov->iov_len;
	}
	assert(payload == tx->packet.length);
	memset(f->bytes + at, 0, pad);
	at += pad;
	assert(at + ICRC_BYTES == f->length);
	icrc_put(f->bytes + at, icrc_start(&flow, 0, f->length, f->bytes, at));
	return f;
}

/* Whether this packet may still be harmed. */
static bool is_fair_game(struct network *n, const struct packet *p)
{
	uint32_t kind = opcode_info[p->opcode].flags & IS_REQUEST ? 1 : 0;
	uint64_t key = ((uint64_t)p->dest_qpn << 25 | (uint64_t)p->psn.v << 1 | kind) * 0x9e3779b97f4a7c15u;
	uint8_t *harmed = &n->harmed[key >> 50];

	if (!n->quality.fair)
		return true;
	if (*harmed == 2)
		return false;
	++*harmed;
	return true;
}

static void damage(struct network *n, struct flight *f)
{
	uint32_t flips = (uint32_t)dice_between(&n->dice, 1, 3), third = f->length * 8 / 3;

	/* each in a third of its own, so that none undoes another */
	for (uint32_t i = 0; i < flips; i++) {
		uint32_t bit = i * third + (uint32_t)dice_below(&n->dice, third);

		f->bytes[bit / 8] ^= 1u << bit % 8;
		f->damaged |= bit / 8 != 4; /* resv8a is not covered: switches mark congestion there */
	}
	n->damaged++;
}

/* When it gets there, by the speed of the sender's cable and the length of the way. NEVER: the queue is full. It holds
 * so many packets of a KiB: if the small ones were counted by their own size, those behind a burst would be dropped
 * each time that it is sent again. */
static uint64_t travel(struct network *n, struct flight *f, const struct packet *p, uint64_t now)
{
	const struct quality *q = &n->quality;
	uint64_t time = (f->length + 62ull) * q->ns_per_kib / 1024, *cable = &n->cable_free[f->from], at;
	uint64_t waiting = *cable > now ? *cable - now : 0;
	uint64_t packets = q->ns_per_kib ? waiting / q->ns_per_kib : 0;

	if (q->queue && packets > q->queue && is_fair_game(n, p))
		return NEVER;
	f->congestion = q->mark && packets > q->mark;
	*cable = max_of(*cable, now) + time;
	at = *cable + q->latency + dice_below(&n->dice, q->jitter);
	if (dice_chance(&n->dice, q->reorder))
		at += dice_below(&n->dice, q->detour);
	else if (q->in_order)
		at = max_of(at, n->last_arrival[f->from][f->to]);
	n->last_arrival[f->from][f->to] = max_of(at, n->last_arrival[f->from][f->to]);
	return at;
}

static void put_on_way(struct network *n, struct flight *f, const struct packet *p, uint64_t now)
{
	const struct quality *q = &n->quality;
	bool lose = dice_chance(&n->dice, q->loss), harm = dice_chance(&n->dice, q->corrupt);

	n->sent++;
	f->due.at = travel(n, f, p, now);
	if (f->due.at == NEVER || (lose && is_fair_game(n, p))) {
		n->lost++;
		free(f);
		return;
	}
	if (harm && is_fair_game(n, p))
		damage(n, f);
	f->due.order = n->order++;
	due_push(&n->flights, &f->due);
}

static void digest(struct network *n, const struct flight *f)
{
	uint32_t icrc;

	memcpy(&icrc, f->bytes + f->length - ICRC_BYTES, ICRC_BYTES);
	n->digest = (n->digest ^ icrc ^ (uint64_t)f->length << 32) * 0x9e3779b97f4a7c15u;
}

void network_send(struct network *n, uint32_t from, const struct tx_batch *batch, const struct tx *tx, uint32_t mtu,
		  uint64_t now)
{
	uint32_t to = node_of(n, &tx->path->dgid);
	struct flight *f = pack(n, from, to, batch, tx), *copy;

	digest(n, f);
	f->mtu = mtu;
	if (n->dead[from] || n->dead[to]) {
		free(f);
		return;
	}
	if (dice_chance(&n->dice, n->quality.duplicate)) {
		copy = pack(n, from, to, batch, tx);
		copy->mtu = mtu;
		n->doubled++;
		put_on_way(n, copy, &tx->packet, now);
	}
	put_on_way(n, f, &tx->packet, now);
}

uint64_t network_next(struct network *n)
{
	while (n->flights.count) {
		struct flight *f = flight_of(n->flights.all[0]);

		if (f->due.at >= n->stopped_until[f->to])
			return f->due.at;
		due_pop(&n->flights);
		f->due.at = n->stopped_until[f->to]; /* in the order that they had */
		due_push(&n->flights, &f->due);
	}
	return NEVER;
}

const struct packet *network_arrive(struct network *n, uint32_t *to, union ibv_gid *from)
{
	struct flight *f = flight_of(due_pop(&n->flights));
	struct icrc_flow flow = flow_of(n, f->from, f->to);

	free(opened);
	opened = f;
	*to = f->to;
	*from = n->gid[f->from];
	if (n->dead[f->to] || n->dead[f->from])
		return NULL;
	if (icrc_check(&flow, f->bytes, f->length, 0) < 0) {
		if (f->damaged)
			return NULL;
		fprintf(stderr, "an undamaged packet failed its ICRC\n");
		abort();
	}
	if (f->damaged && !n->quality.ipv4) { /* with IPv4 one in 2^16 may pass: icrc.h */
		fprintf(stderr, "a damaged packet passed its ICRC\n");
		abort();
	}
	/* to malloc's tight bounds, so that ASan sees a look beyond the end */
	memset(&arrived, 0x5a, sizeof(arrived));
	arrived.congestion = f->congestion;
	if (f->damaged || packet_parse(&arrived, f->bytes, f->length - ICRC_BYTES))
		return NULL;
	arrived.mtu = f->mtu;
	arrived.is_uroce = n->quality.uroce && !f->mtu;
	return &arrived;
}
