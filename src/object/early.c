/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/early.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define EARLY_MOST (64ull << 20) /* bytes in all QPs of the process: above that, packets are dropped */

struct early {
	psn_t at;    /* nothing before it waits */
	psn_t top;   /* one past the highest PSN that waits */
	psn_t next;  /* where the next selective acknowledgement of many begins */
	bool newest; /* the last one began there, so the next one shows the newest packets */
	uint32_t count;
	uint64_t bits[SELECTIVE_PSNS / 64];    /* PSNs that waiting packets take; the others are 0 */
	struct packet *packet[SELECTIVE_PSNS]; /* by the first of its PSNs */
};

/* Relaxed: a limit, nothing depends on it. */
static _Atomic uint64_t early_bytes;

static uint32_t early_place(psn_t psn)
{
	return psn.v % SELECTIVE_PSNS;
}

static bool early_has(const struct early *e, psn_t psn)
{
	return e->bits[early_place(psn) / 64] >> early_place(psn) % 64 & 1;
}

static void early_mark(struct early *e, psn_t psn, uint32_t count)
{
	for (; count; count--, psn = psn_add(psn, 1))
		e->bits[early_place(psn) / 64] |= 1ull << early_place(psn) % 64;
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

/* NULL: there is no memory, or too much is kept already. */
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

/* A copy with its payload. */
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

bool early_keep(struct early **where, psn_t expected, const struct packet *p, uint32_t span)
{
	struct early *e = *where ?: (*where = calloc(1, sizeof(*e)));
	struct packet *copy;

	if (!e || (uint32_t)psn_diff(p->psn, expected) + span > SELECTIVE_PSNS)
		return false;
	if (!e->count)
		e->at = e->top = e->next = expected;
	else if (early_has(e, p->psn))
		return true;
	copy = copy_packet(p);
	if (!copy)
		return false;
	e->packet[early_place(p->psn)] = copy;
	e->count++;
	early_mark(e, p->psn, span);
	if (psn_diff(psn_add(p->psn, span), e->top) > 0)
		e->top = psn_add(p->psn, span);
	return true;
}

const struct packet *early_at(const struct early *e, psn_t psn)
{
	const struct packet *p = e->packet[early_place(psn)];

	return p && psn_equal(p->psn, psn) ? p : NULL;
}

/* What waited at this PSN, which is now the caller's; NULL: nothing did. */
static struct packet *early_take(struct early *e, psn_t psn)
{
	uint32_t place = early_place(psn);
	struct packet *p = e->packet[place];

	e->bits[place / 64] &= ~(1ull << place % 64);
	e->packet[place] = NULL;
	e->count -= p != NULL;
	return p;
}

struct packet *early_next(struct early *e, psn_t expected)
{
	struct packet *p;

	/* what lies before it came once more, in order */
	for (; !psn_equal(e->at, expected); e->at = psn_add(e->at, 1)) {
		p = early_take(e, e->at);
		if (p)
			early_done(p);
	}
	p = early_take(e, e->at);
	if (!e->count)
		memset(e->bits, 0, sizeof(e->bits)); /* the packet may take more PSNs than its first */
	return p;
}

bool early_first(const struct early *e, psn_t from, psn_t *first)
{
	if (!e->count)
		return false;
	for (; psn_diff(e->top, from) > 0; from = psn_add(from, 1)) {
		uint32_t place = early_place(from);

		if (e->packet[place]) {
			*first = from;
			return true;
		}
		if (place % 64 == 0 && !e->bits[place / 64])
			from = psn_add(from, 63);
	}
	return false;
}

uint32_t early_count(const struct early *e)
{
	return e->count;
}

void early_clear(struct early *e)
{
	for (psn_t psn = e->at; e->count; psn = psn_add(psn, 1)) {
		struct packet *p = early_take(e, psn);

		if (p)
			early_done(p);
	}
	memset(e->bits, 0, sizeof(e->bits));
}

void early_free(struct early *e)
{
	if (e)
		early_clear(e);
	free(e);
}

/* The PSN of the first bit of the next selective acknowledgement. If not all fits, every second one shows the newest,
 * and the others the rest by turns: what was told in one that was lost is told again. */
static psn_t sack_first(struct early *e, psn_t expected)
{
	if ((uint32_t)psn_diff(e->top, expected) <= SACK_BITS)
		return expected;
	e->newest = !e->newest;
	if (e->newest)
		return psn_add(e->top, -(uint32_t)SACK_BITS);
	if (psn_diff(e->next, expected) < 0 || psn_diff(e->next, e->top) >= 0)
		e->next = expected;
	e->next = psn_add(e->next, SACK_BITS);
	return psn_add(e->next, -(uint32_t)SACK_BITS);
}

uint32_t early_tell(struct early *e, psn_t expected, uint8_t payload[SACK_PAYLOAD])
{
	psn_t first = sack_first(e, expected);
	uint32_t count = min_of((uint32_t)psn_diff(e->top, first), (uint32_t)SACK_BITS),
		 length = sack_begin(payload, first, count);

	for (uint32_t i = 0; i < count; i++)
		if (early_has(e, psn_add(first, i)))
			sack_set(payload, i);
	return length;
}
