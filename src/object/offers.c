/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/offers.h"

#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"
#include "memory/claims.h"
#include "object/receives.h"

/* Position p is in cell p % SHARE_RECEIVES. */
struct offers {
	struct share_queue *shown;
	struct share_claims *claims;
	struct share_receive *display;
	uint16_t slot;
	uint32_t lkey;
	uint32_t low; /* position of the oldest cell in use; rq->offered are */
	bool in_use[SHARE_RECEIVES];
	uint32_t position[SHARE_RECEIVES];
	char *copy; /* of each receive */
};

static bool has(const struct offers *o, uint32_t position)
{
	uint32_t cell = position % SHARE_RECEIVES;

	return o->in_use[cell] && o->position[cell] == position;
}

static struct rwqe *copy_at(const struct rq *rq, uint32_t position)
{
	return (struct rwqe *)(rq->offers->copy + (size_t)(position % SHARE_RECEIVES) * rq->stride);
}

static void account(struct rq *rq)
{
	/* only read under the lock */
	atomic_store_explicit(&rq->reclaimed, rq->head - rq->offered, memory_order_relaxed);
}

static void offer(struct rq *rq)
{
	struct offers *o = rq->offers;
	uint32_t at = rq->head++, cell = at % SHARE_RECEIVES;
	struct share_receive *to = &o->display[cell], seen = receive_shown_as(rq_at(rq, at), o->lkey);

	memcpy(copy_at(rq, at), rq_at(rq, at), rq->stride);
	/* relaxed: who reads it now does so in vain, as the word has another position */
	__atomic_store_n(&to->address, seen.address, __ATOMIC_RELAXED);
	__atomic_store_n(&to->length, seen.length, __ATOMIC_RELAXED);
	__atomic_store_n(&to->key, seen.key, __ATOMIC_RELAXED);
	o->in_use[cell] = true;
	o->position[cell] = at;
	if (!rq->offered++)
		o->low = at;
	claims_put(o->claims, at);
}

void offers_show(struct rq *rq)
{
	struct offers *o = rq->offers;

	if (!o || hooks_any())
		return;
	while (rq->head != rq->tail && !o->in_use[rq->head % SHARE_RECEIVES])
		offer(rq);
	/* release pairs with claim_receive() in delivery.c */
	atomic_store_explicit(&o->shown->offered, rq->head, memory_order_release);
	account(rq);
}

void offers_open(struct rq *rq, struct share *share, uint32_t index, uint64_t pd, uint32_t lkey)
{
	struct offers *o;

	if (rq->offers || !share_queue_entry(share, index))
		return;
	o = calloc(1, sizeof(*o) + (size_t)SHARE_RECEIVES * rq->stride);
	if (!o)
		return; /* messages come as packets */
	o->shown = share_queue_entry(share, index);
	o->claims = &share->table->claims[index];
	o->display = share->table->receive[SHARE_QPS + index];
	o->slot = share->slot;
	o->lkey = lkey;
	o->copy = (char *)(o + 1);
	o->shown->pd = pd;
	/* no word of an earlier queue looks like one of this */
	for (uint32_t i = 0; i < SHARE_RECEIVES; i++)
		atomic_store_explicit(&o->claims->word[i], claim_word(rq->head - 1, claimer(o->slot, 0)),
				      memory_order_relaxed);
	atomic_store_explicit(&o->claims->next, rq->head, memory_order_relaxed);
	rq->offers = o;
	offers_show(rq);
}

void offers_close(struct rq *rq)
{
	if (rq->offers)
		atomic_store_explicit(&rq->offers->shown->offered, 0, memory_order_relaxed);
	free(rq->offers);
	rq->offers = NULL;
}

/* Position of the oldest cell in use. One that is held for long may lie far behind the others. */
static uint32_t oldest(const struct rq *rq)
{
	const struct offers *o = rq->offers;
	uint32_t age = 0;

	for (uint32_t i = 0; i < SHARE_RECEIVES; i++)
		if (o->in_use[i])
			age = max_of(age, rq->head - o->position[i]);
	return rq->head - age;
}

static void let_go(struct rq *rq, uint32_t position)
{
	struct offers *o = rq->offers;

	o->in_use[position % SHARE_RECEIVES] = false;
	rq->offered--;
	if (rq->head - o->low > SHARE_RECEIVES)
		o->low = oldest(rq);
	while (rq->offered && !has(o, o->low))
		o->low++;
}

void offers_used(struct rq *rq, uint32_t position)
{
	let_go(rq, position);
	offers_show(rq);
	account(rq);
}

static bool take_at(struct rq *rq, uint32_t at, struct rwqe *out, uint32_t *position)
{
	struct offers *o = rq->offers;

	if (!has(o, at) || !claims_take(o->claims, at, claimer(o->slot, 0)))
		return false;
	memcpy(out, copy_at(rq, at), rwqe_bytes(copy_at(rq, at)));
	*position = at;
	offers_used(rq, at);
	return true;
}

bool offers_take(struct rq *rq, struct rwqe *out, uint32_t *position)
{
	struct offers *o = rq->offers;
	uint32_t at = o->low;

	if (!rq->offered)
		return false;
	if (take_at(rq, at, out, position))
		return true;
	/* a peer that is stopped may hold the oldest for long, while others come and go */
	if (rq->head - at > SHARE_RECEIVES)
		at = rq->head - SHARE_RECEIVES;
	for (; at != rq->head; at++)
		if (take_at(rq, at, out, position))
			return true;
	for (uint32_t i = 0; i < SHARE_RECEIVES; i++) /* given back by a claimer, while an older one was held */
		if (take_at(rq, o->position[i], out, position))
			return true;
	return false;
}

static uint64_t word_of(const struct offers *o, uint32_t position)
{
	return atomic_load_explicit(claim_at(o->claims, position), memory_order_relaxed);
}

uint32_t offers_unclaimed(const struct rq *rq)
{
	const struct offers *o = rq->offers;
	uint32_t count = 0;

	for (uint32_t i = 0; o && i < SHARE_RECEIVES; i++)
		count += o->in_use[i] && word_of(o, o->position[i]) == claim_word(o->position[i], 0);
	return count;
}

const struct rwqe *offers_claimed(const struct rq *rq, uint32_t position, uint32_t qp)
{
	const struct offers *o = rq->offers;
	uint64_t word;

	if (!o || !has(o, position))
		return NULL;
	word = word_of(o, position);
	return word >> 32 == position && (uint32_t)word && (word & 0xffff) == (qp & 0xffff) ? copy_at(rq, position)
											    : NULL;
}

const struct rwqe *offers_find_claimed(const struct rq *rq, uint32_t qp, uint32_t *cell, uint32_t *position)
{
	const struct offers *o = rq->offers;
	const struct rwqe *found = NULL;

	while (o && !found && *cell < SHARE_RECEIVES) {
		*position = o->position[*cell];
		found = o->in_use[*cell] ? offers_claimed(rq, *position, qp) : NULL;
		++*cell;
	}
	return found;
}

void offers_return(struct rq *rq, uint32_t qp)
{
	const struct rwqe *r;
	uint32_t cell = 0, position;

	while ((r = offers_find_claimed(rq, qp, &cell, &position))) {
		memcpy(rq_at(rq, rq->tail++), r, rq->stride);
		let_go(rq, position);
	}
	if (!rq->offers)
		return;
	offers_show(rq);
	account(rq);
}
