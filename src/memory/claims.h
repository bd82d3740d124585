/* SPDX-License-Identifier: BSD-2-Clause */
/* Claims of the receives of an SRQ, which many local peers see: a word for each that is shown. A local peer claims a
 * receive by compare-and-swap of its word; the owner of the SRQ does the same for a message that came as a packet. So
 * nobody gets one that another has. Local peers can write all words: the owner keeps its own account of what it has
 * shown, and believes no word that contradicts it (object/offers.h). */
#ifndef UROCE_MEMORY_CLAIMS_H
#define UROCE_MEMORY_CLAIMS_H

#include "memory/share.h"

/* Who claims: the slot of its process and the QP that the message is for. Never 0, as no process has slot 0. */
static inline uint32_t claimer(uint16_t slot, uint32_t qp)
{
	return (uint32_t)slot << 16 | (qp & 0xffff);
}

static inline uint64_t claim_word(uint32_t position, uint32_t claimed_by)
{
	return (uint64_t)position << 32 | claimed_by;
}

static inline _Atomic uint64_t *claim_at(struct share_claims *c, uint32_t position)
{
	return &c->word[position % SHARE_RECEIVES];
}

/* The next receive that nobody has claimed, of those before `shown`. False: there is none. */
static inline bool claims_find(struct share_claims *c, uint32_t shown, uint32_t *position)
{
	uint32_t at = atomic_load_explicit(&c->next, memory_order_relaxed); /* a hint */

	if (shown - at > SHARE_RECEIVES)
		at = shown - SHARE_RECEIVES;
	/* acquire pairs with claims_put(): what is shown of the receive is read afterwards */
	while (at != shown && atomic_load_explicit(claim_at(c, at), memory_order_acquire) != claim_word(at, 0))
		at++;
	*position = at;
	return at != shown;
}

/* False: another has it. */
static inline bool claims_take(struct share_claims *c, uint32_t position, uint32_t claimed_by)
{
	uint64_t free = claim_word(position, 0);

	/* acquire pairs with claims_put() */
	if (!atomic_compare_exchange_strong_explicit(claim_at(c, position), &free, claim_word(position, claimed_by),
						     memory_order_acquire, memory_order_relaxed))
		return false;
	atomic_store_explicit(&c->next, position + 1, memory_order_relaxed);
	return true;
}

/* The receive is free to be claimed: it is shown anew, or its claimer has not used it. */
static inline void claims_put(struct share_claims *c, uint32_t position)
{
	/* release: what is shown of the receive was stored before, and what its last claimer has read, read */
	atomic_store_explicit(claim_at(c, position), claim_word(position, 0), memory_order_release);
}

static inline void claims_give_back(struct share_claims *c, uint32_t position)
{
	claims_put(c, position);
	atomic_store_explicit(&c->next, position, memory_order_relaxed);
}

#endif
