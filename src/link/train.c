/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/train.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/qpn.h"
#include "base/tsan.h"
#include "link/tuned.h"
#include "memory/fault.h"

static _Thread_local struct train *own_train;
static pthread_key_t train_key;

static void train_make_key(void)
{
	pthread_key_create(&train_key, free);
}

static __attribute__((noinline)) struct train *make_train(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, train_make_key);
	own_train = malloc(sizeof(*own_train));
	if (!own_train)
		return NULL;
	memset(own_train, 0, offsetof(struct train, iov));
	pthread_setspecific(train_key, own_train); /* frees it when the thread ends */
	return own_train;
}

struct train *train_of_thread(void)
{
	return own_train ?: make_train();
}

static void finish_piece(struct train *t)
{
	if (t->at == t->piece)
		return;
	t->iov[t->pieces++] = (struct iovec){t->piece, t->at - t->piece};
	t->piece = t->at;
}

/* A READ response is copied whatever its size: its memory may change while it is sent, and then the ICRC would not
 * match. A requester's memory belongs to us until its completion. */
static bool is_copied(const struct packet *p)
{
	return p->length <= COPY_BYTES || opcode_info[p->opcode].flags & IS_RESPONSE;
}

static void copy_payload(struct train *t, const struct link_tx *tx)
{
	for (uint32_t i = 0; i < tx->iovs; i++) {
		memcpy(t->at, tx->iov[i].iov_base, tx->iov[i].iov_len);
		t->at += tx->iov[i].iov_len;
	}
}

/* Moves it where an earlier packet has left as another train. */
static inline void keep_payload(struct train *t, const struct link_tx *tx)
{
	if (unlikely(t->at != tx->placed))
		memmove(t->at, tx->placed, tx->packet->length);
	t->at += tx->packet->length;
}

static void append_zeros(struct train *t, uint32_t n)
{
	memset(t->at, 0, n);
	t->at += n;
}

/* A pure function of flow and length, so it is never stale; of all headers before the BTH, the CRC tells IPv4 and IPv6
 * apart. */
static inline void choose_before(struct train *t, uint32_t bytes)
{
	if (likely(bytes == t->before_size && t->start->crc == t->before_crc))
		return;
	t->before = icrc_before(t->start, bytes);
	t->before_size = bytes;
	t->before_crc = t->start->crc;
}

/* `bytes`: of the whole packet. */
static void train_append(struct train *t, const struct link_tx *tx, uint32_t bytes)
{
	const struct packet *p = tx->packet;
	uint32_t pad = packet_pad(p->length), icrc;
	uint8_t *header = t->at;
	size_t n = packet_encode(p, header);

	t->at += n;
	choose_before(t, bytes);
	if (is_copied(p)) {
		copy_payload(t, tx);
		append_zeros(t, pad);
		icrc = icrc_continue(t->start, t->before, t->first + t->packets, header, t->at - header);
	} else {
		icrc = icrc_continue(t->start, t->before, t->first + t->packets, header, n);
		finish_piece(t);
		for (uint32_t i = 0; i < tx->iovs; i++) {
			icrc = icrc_add(icrc, tx->iov[i].iov_base, tx->iov[i].iov_len);
			t->iov[t->pieces++] = tx->iov[i];
		}
		append_zeros(t, pad);
		icrc = icrc_add(icrc, t->at - pad, pad);
	}
	icrc_put(t->at, icrc);
	t->at += ICRC_BYTES;
	t->last = bytes;
	t->bytes += bytes;
	t->packets++;
	tsan_release(tsan_key(p->dest_qpn));
}

/* On one host a train arrives whole, at the socket that the first packet is for: so it is for one process
 * (host/steering.h). */
static bool same_way(const struct link_tx *a, const struct link_tx *b)
{
	return qpn_slot(a->packet->dest_qpn) == qpn_slot(b->packet->dest_qpn) && a->traffic_class == b->traffic_class &&
	       a->hop_limit == b->hop_limit && (a->dgid == b->dgid || !memcmp(a->dgid, b->dgid, sizeof(*a->dgid)));
}

static bool fits(const struct train *t, const struct link_tx *tx, uint32_t bytes)
{
	return t->last == t->size && bytes <= t->size && t->packets < TRAIN_PACKETS &&
	       t->bytes + bytes <= TRAIN_BYTES && t->pieces + tx->iovs + 2 <= TRAIN_PIECES;
}

void train_between(struct train *t, const union ibv_gid *from, const union ibv_gid *to)
{
	t->start = &t->flow;
	t->first = 0;
	if (!memcmp(&t->to, to, sizeof(t->to)) && !memcmp(&t->from, from, sizeof(t->from)))
		return;
	t->from = *from;
	t->to = *to;
	icrc_flow_init(&t->flow, from->raw, to->raw, ROCE_PORT, ROCE_PORT);
}

static void train_begin(struct train *t, uint32_t size)
{
	t->packets = t->bytes = t->pieces = 0;
	t->piece = t->at = t->memory;
	t->size = size;
}

static void train_fill(struct train *t, const struct link_tx *tx, uint32_t limit)
{
	train_begin(t, packet_bytes(tx->packet));
	train_append(t, tx, t->size);
	while (t->packets < limit) {
		const struct link_tx *next = &tx[t->packets];
		uint32_t bytes = packet_bytes(next->packet);

		if (!fits(t, next, bytes) || !same_way(tx, next))
			break;
		train_append(t, next, bytes);
	}
	finish_piece(t);
}

/* Packets whose payload is placed, and perhaps an ACK behind them. */
static void train_fill_placed(struct train *t, const struct link_tx *tx, uint32_t limit)
{
	uint32_t size = packet_bytes(tx->packet), pad = packet_pad(tx->packet->length), n = 0, icrc;

	train_begin(t, size);
	choose_before(t, size);
	do {
		uint8_t *header = t->at;

		t->at += n ? packet_encode_like(tx[n].packet, t->memory, header) : packet_encode(tx[0].packet, header);
		keep_payload(t, &tx[n]);
		append_zeros(t, pad);
		icrc = icrc_continue(t->start, t->before, t->first + n, header, t->at - header);
		icrc_put(t->at, icrc);
		t->at += ICRC_BYTES;
		n++;
	} while (n < limit && tx[n].placed);
	t->packets = n;
	t->bytes = n * size;
	t->last = size;
	tsan_release(tsan_key(tx->packet->dest_qpn));
	if (n < limit && fits(t, &tx[n], packet_bytes(tx[n].packet)))
		train_append(t, &tx[n], packet_bytes(tx[n].packet));
	finish_piece(t);
}

/* What train_fill() is to do. */
struct order {
	struct train *train;
	const struct link_tx *tx;
	uint32_t limit;
};

static void build_order(void *arg)
{
	const struct order *o = arg;

	train_fill(o->train, o->tx, o->limit);
}

static void build_corrupt(void *arg)
{
	const struct order *o = arg;

	train_fill(o->train, o->tx, 1);
	o->train->at[-1] ^= 0xff; /* of the ICRC */
}

bool train_build(struct train *t, const struct link_tx *tx, uint32_t limit)
{
	if (tx->placed) {
		train_fill_placed(t, tx, limit);
		return true;
	}
	return fault_try(unlikely(tx->bad_icrc) ? build_corrupt : build_order, &(struct order){t, tx, limit});
}
