/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/early.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define EARLY_MOST (64ull << 20) /* bytes in all QPs of the process; above, packets are dropped */

struct early {
	psn_t at;   /* PSN before which no packet waits */
	psn_t top;  /* one past the highest PSN that waits */
	psn_t next; /* PSN at which the next selective acknowledgement of many begins */
	uint32_t count;
	uint32_t size;		 /* PSNs from `at` on for which there is room: psn_places() */
	uint64_t *bits;		 /* set of PSNs that waiting packets take; behind it: */
	struct packet *packet[]; /* packets, each at the first of its PSNs */
};

/* Relaxed: a limit, nothing depends on it. */
static _Atomic uint64_t early_bytes;

static uint32_t early_place(const struct early *e, psn_t psn)
{
	return psn.v & (e->size - 1);
}

static bool early_has(const struct early *e, psn_t psn)
{
	uint32_t place = early_place(e, psn);

	return (uint32_t)psn_diff(psn, e->at) < e->size && (e->bits[place / 64] >> place % 64 & 1);
}

static void early_mark(struct early *e, psn_t psn, uint32_t count)
{
	for (; count; count--, psn = psn_add(psn, 1))
		e->bits[early_place(e, psn) / 64] |= 1ull << early_place(e, psn) % 64;
}

static uint64_t bytes_kept(const struct packet *p)
{
	return sizeof(*p) + p->length;
}

void early_done(struct packet *p)
{
	atomic_fetch_sub_explicit(&early_bytes, bytes_kept(p), memory_order_relaxed);
	free(p);
}

/* Counted memory. NULL: no memory, or the limit is reached. */
static void *allocate(uint64_t bytes)
{
	void *memory = NULL;

	if (atomic_fetch_add_explicit(&early_bytes, bytes, memory_order_relaxed) + bytes <= EARLY_MOST)
		memory = malloc(bytes);
	if (!memory)
		atomic_fetch_sub_explicit(&early_bytes, bytes, memory_order_relaxed);
	return memory;
}

struct kept_read *kept_read_make(psn_t psn, uint32_t length)
{
	struct kept_read *k = allocate(sizeof(*k) + length);

	if (k)
		*k = (struct kept_read){.psn = psn, .length = length};
	return k;
}

void kept_read_free(struct kept_read *k)
{
	if (!k)
		return;
	atomic_fetch_sub_explicit(&early_bytes, sizeof(*k) + k->length, memory_order_relaxed);
	free(k);
}

void kept_read_free_all(struct kept_read **first)
{
	while (*first) {
		struct kept_read *k = *first;

		*first = k->next;
		kept_read_free(k);
	}
}

/* A copy of a packet with its payload. */
static struct packet *copy_packet(const struct packet *p)
{
	struct packet *copy = allocate(bytes_kept(p));

	if (!copy)
		return NULL;
	*copy = *p;
	copy->to = NULL;
	copy->payload = (uint8_t *)(copy + 1);
	if (p->length)
		memcpy(copy + 1, p->payload, p->length);
	return copy;
}

/* Makes room for the PSNs in [at, end). False: no memory. */
static bool early_cover(struct early **where, psn_t at, psn_t end)
{
	struct early *e = *where, *larger;
	uint32_t size = psn_places((uint32_t)psn_diff(end, at));

	if (e && size <= e->size)
		return true;
	larger = calloc(1, sizeof(*e) + size * sizeof(*e->packet) + size / 8);
	if (!larger)
		return false;
	*larger = e ? *e : (struct early){.at = at, .top = at, .next = at};
	larger->size = size;
	larger->bits = (uint64_t *)(larger->packet + size);
	for (uint32_t i = 0; e && i < e->size; i++) {
		psn_t psn = psn_add(at, i);

		larger->packet[early_place(larger, psn)] = e->packet[early_place(e, psn)];
		if (early_has(e, psn))
			early_mark(larger, psn, 1);
	}
	free(e);
	*where = larger;
	return true;
}

/* The packet that waited at this PSN, which becomes the caller's; NULL: none. */
static struct packet *early_take(struct early *e, psn_t psn)
{
	uint32_t place = early_place(e, psn);
	struct packet *p = e->packet[place];

	e->bits[place / 64] &= ~(1ull << place % 64);
	e->packet[place] = NULL;
	e->count -= p != NULL;
	return p;
}

const struct packet *early_at(const struct early *e, psn_t psn)
{
	const struct packet *p = e ? e->packet[early_place(e, psn)] : NULL;

	return p && psn_equal(p->psn, psn) ? p : NULL;
}

static void free_if_empty(struct early **where)
{
	if ((*where)->count)
		return;
	free(*where);
	*where = NULL;
}

/* Drops packets before `expected`, which came again in order. */
static void early_advance(struct early *e, psn_t expected)
{
	for (; e->count && !psn_equal(e->at, expected); e->at = psn_add(e->at, 1)) {
		struct packet *p = early_take(e, e->at);

		if (p)
			early_done(p);
	}
}

/* Adds a copy of a packet. False: no memory, or the limit is reached. */
static bool add_copy(struct early *e, const struct packet *p, uint32_t span)
{
	struct packet *copy = copy_packet(p);

	if (!copy)
		return false;
	e->packet[early_place(e, p->psn)] = copy;
	e->count++;
	early_mark(e, p->psn, span);
	if (psn_diff(psn_add(p->psn, span), e->top) > 0)
		e->top = psn_add(p->psn, span);
	return true;
}

bool early_keep(struct early **where, psn_t expected, const struct packet *p, uint32_t span)
{
	bool kept;

	if (*where) {
		early_advance(*where, expected);
		free_if_empty(where);
	}
	if ((uint32_t)psn_diff(p->psn, expected) + span > SELECTIVE_PSNS)
		return false;
	if (*where && early_has(*where, p->psn))
		return true;
	if (!early_cover(where, expected, psn_add(p->psn, span)))
		return false;
	kept = add_copy(*where, p, span);
	free_if_empty(where);
	return kept;
}

struct packet *early_next(struct early **where, psn_t expected)
{
	struct packet *p = NULL;

	early_advance(*where, expected);
	if ((*where)->count)
		p = early_take(*where, expected);
	free_if_empty(where);
	return p;
}

bool early_first(const struct early *e, psn_t from, psn_t *first)
{
	for (; e && psn_diff(e->top, from) > 0; from = psn_add(from, 1)) {
		uint32_t place = early_place(e, from);

		if (e->packet[place]) {
			*first = from;
			return true;
		}
		if (place % 64 == 0 && !e->bits[place / 64])
			from = psn_add(from, 63);
	}
	return false;
}

void early_drop(struct early **where)
{
	struct early *e = *where;

	for (uint32_t i = 0; e && e->count; i++) {
		struct packet *p = early_take(e, psn_add(e->at, i));

		if (p)
			early_done(p);
	}
	free(e);
	*where = NULL;
}

/* The PSN of the first bit of the next selective acknowledgement. If not all fits, every second one shows the newest,
 * and the others the rest by turns: what was told in one that was lost is told again. */
static psn_t sack_first(struct early *e, psn_t expected, bool *newest)
{
	if ((uint32_t)psn_diff(e->top, expected) <= SACK_BITS)
		return expected;
	*newest = !*newest;
	if (*newest)
		return psn_add(e->top, -(uint32_t)SACK_BITS);
	if (psn_diff(e->next, expected) < 0 || psn_diff(e->next, e->top) >= 0)
		e->next = expected;
	e->next = psn_add(e->next, SACK_BITS);
	return psn_add(e->next, -(uint32_t)SACK_BITS);
}

uint32_t early_tell(struct early *e, psn_t expected, bool *newest, uint8_t payload[SACK_PAYLOAD])
{
	psn_t first = sack_first(e, expected, newest);
	uint32_t count = min_of((uint32_t)psn_diff(e->top, first), (uint32_t)SACK_BITS),
		 length = sack_begin(payload, first, count);

	for (uint32_t i = 0; i < count; i++)
		if (early_has(e, psn_add(first, i)))
			sack_set(payload, i);
	return length;
}
