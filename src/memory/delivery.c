/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a message to a local peer's QP goes: the next receive that the QP shows, or one that is claimed of its SRQ. */
#include <infiniband/verbs.h>

#include "memory/claims.h"
#include "memory/reach.h"
#include "memory/reach_table.h"

/* A copy, as the local peer may change it. */
static struct share_receive receive_at(const struct reach *r, const struct reach_pair *pair)
{
	const struct reach_receives *v = &pair->receives;
	const struct share_receive *e = &r->table->receive[v->row][v->next % SHARE_RECEIVES];

	/* relaxed: if its owner is changing it, another has claimed it */
	return (struct share_receive){
		__atomic_load_n(&e->address, __ATOMIC_RELAXED),
		__atomic_load_n(&e->length, __ATOMIC_RELAXED),
		__atomic_load_n(&e->key, __ATOMIC_RELAXED),
	};
}

/* True if the message goes into the region of the last receive. */
static inline bool receive_within(const struct reach_receives *v, const struct share_receive *to, uint64_t length)
{
	return likely(length <= to->length && length <= v->length && to->address - v->va <= v->length - length);
}

/* Where the message goes, if that is in the region of the last receive. */
static inline char *receive_place(const struct reach_receives *v, const struct share_receive *to, uint64_t length)
{
	return likely(to->key == v->key && receive_within(v, to, length)) ? v->at + (to->address - v->va) : NULL;
}

static void remember_receive(struct reach *r, struct reach_pair *pair, const struct share_region *region, uint32_t key)
{
	struct reach_pair found = {.qp = pair->qp};
	struct reach_receives *v = &pair->receives;

	reach_remember(r, &found, region, key, 0);
	v->key = found.length ? key : 0;
	v->va = found.va;
	v->length = found.length;
	v->at = found.at;
	v->carried_key = 0;
}

static void remember_unmapped(struct reach_receives *v, const struct share_region *region, uint32_t key)
{
	v->key = 0;
	v->carried_key = key;
	v->va = region->iova;
	v->length = region->mapped ? 0 : region->length; /* mapped in part: looked up each time */
}

/* Copies the region of the receive, if that takes the message. */
static bool receive_region(struct reach *r, const struct reach_pair *pair, const struct share_receive *to,
			   uint64_t length, struct share_region *region)
{
	uint32_t row = pair->receives.row;

	return length <= to->length && copy_region(r, to->key, region) &&
	       region->pd == (row < SHARE_QPS ? r->table->qp[row].pd : r->table->queue[row - SHARE_QPS].pd) &&
	       region->access & IBV_ACCESS_LOCAL_WRITE && region_has(region, to->address, length);
}

/* The same as receive_place() for any region. */
static char *receive_locate(struct reach *r, struct reach_pair *pair, const struct share_receive *to, uint64_t length)
{
	struct share_region region;
	struct reach_span span;

	if (!length)
		return (char *)pair; /* nothing is stored there */
	if (!receive_region(r, pair, to, length, &region))
		return NULL;
	if (likely(reach_locate(r, &region, to->address, length, &span) && span.at))
		remember_receive(r, pair, &region, to->key);
	else if (length <= REACH_CARRY_MOST && !(region.file & SHARE_OF_GPU))
		remember_unmapped(&pair->receives, &region, to->key); /* for reach_carry() */
	return span.at;
}

/* True if the receive takes the message, and its memory is not mapped here. */
static bool receive_is_carried(struct reach *r, struct reach_pair *pair, const struct share_receive *to,
			       uint64_t length)
{
	struct reach_receives *v = &pair->receives;

	if (likely(to->key == v->carried_key && receive_within(v, to, length)) || !length)
		return true;
	v->carried_key = 0;
	return !receive_locate(r, pair, to, length) && v->carried_key;
}

/* The row of share_table.receive that the QP's receives are in. */
static uint32_t receives_row(const struct share_qp *qp, uint32_t index)
{
	/* relaxed: receives_hide() counts a change in share_table.closed */
	uint32_t queue = atomic_load_explicit(&((struct share_qp *)qp)->queue, memory_order_relaxed);

	return queue && queue <= SHARE_QUEUES ? SHARE_QPS + queue - 1 : index;
}

/* Looks at what the remote QP shows. False: no receive for the next message. */
static bool look_at_receives(struct reach *r, struct reach_pair *pair)
{
	struct reach_receives *v = &pair->receives;
	struct share_qp *qp = (struct share_qp *)&r->table->qp[pair->qp];
	uint64_t closed = atomic_load_explicit(&r->table->closed, memory_order_seq_cst); /* as in reach_enter() */

	if (v->closed != closed)
		v->key = v->carried_key = 0;
	v->closed = closed;
	v->posted = v->next;
	if (!qp_is_open(qp, pair->pair, 0))
		return false;
	if (!v->is_known) {
		/* acquire: all that has been sent was acknowledged, after it had been counted there */
		v->next = v->posted = atomic_load_explicit(&qp->taken, memory_order_acquire);
		v->life = qp->life;
		v->row = receives_row(qp, pair->qp);
		v->is_known = true;
	}
	if (v->life != qp->life)
		return false;
	if (v->row >= SHARE_QPS)
		return receives_row(qp, pair->qp) == v->row;
	/* acquire pairs with receives_posted() */
	v->posted = atomic_load_explicit(&qp->receives, memory_order_acquire);
	if (likely(v->posted - v->next - 1 < SHARE_RECEIVES))
		return true;
	v->posted = v->next;
	return false;
}

/* Where the message goes. A place that is not NULL, but none, if its record is to carry it. */
static inline __attribute__((always_inline)) char *receive_find(struct reach *r, struct reach_pair *pair,
								uint64_t length, bool is_carried)
{
	struct share_receive to = receive_at(r, pair);

	if (is_carried)
		return receive_is_carried(r, pair, &to, length) ? (char *)pair : NULL;
	return receive_place(&pair->receives, &to, length) ?: receive_locate(r, pair, &to, length);
}

/* Claims a receive of the remote QP's SRQ that takes the message. `posted` then says that it is the only one known. */
static inline __attribute__((always_inline)) char *claim_receive(struct reach *r, struct reach_pair *pair,
								 uint64_t length, bool is_carried)
{
	struct reach_receives *v = &pair->receives;
	uint32_t queue = v->row - SHARE_QPS, shown;
	struct share_claims *claims = &r->table->claims[queue];
	char *at;

	do {
		/* acquire pairs with offers_show() */
		shown = atomic_load_explicit(&r->table->queue[queue].offered, memory_order_acquire);
		if (!claims_find(claims, shown, &v->next)) {
			v->posted = v->next;
			return NULL;
		}
		at = receive_find(r, pair, length, is_carried);
	} while (at && !claims_take(claims, v->next, claimer(r->own->slot, pair->qp)));
	v->posted = v->next + (at != NULL);
	return at;
}

void reach_undeliver(struct reach *r, struct reach_pair *pair)
{
	struct reach_receives *v = &pair->receives;

	if (v->row >= SHARE_QPS) {
		claims_give_back(&r->table->claims[v->row - SHARE_QPS], v->next);
		v->posted = v->next;
	}
	reach_leave(r);
}

/* reach_deliver() but for its fast path, and reach_carry(). */
static __attribute__((noinline)) char *deliver_anew(struct reach *r, struct reach_pair *pair, uint64_t length,
						    bool is_carried)
{
	char *at = NULL;

	if (pair->qp >= SHARE_QPS || (!hazard_number && hazard_take() == NO_HAZARD) || !reach_begin(r))
		return NULL;
	if (likely(look_at_receives(r, pair)))
		at = pair->receives.row >= SHARE_QPS ? claim_receive(r, pair, length, is_carried)
						     : receive_find(r, pair, length, is_carried);
	if (unlikely(!at))
		reach_leave(r);
	return at;
}

bool reach_carry(struct reach *r, struct reach_pair *pair, uint64_t length)
{
	return length <= REACH_CARRY_MOST && deliver_anew(r, pair, length, true);
}

bool reach_looks_stored(const struct reach *r, const struct reach_pair *pair)
{
	const struct reach_receives *v = &pair->receives;
	struct share_qp *qp = (struct share_qp *)&r->table->qp[pair->qp];

	/* acquire pairs with receives_stored() */
	return v->life == qp->life &&
	       (int32_t)(atomic_load_explicit(&qp->stored, memory_order_acquire) - v->carried) >= 0;
}

char *reach_deliver(struct reach *r, struct reach_pair *pair, uint64_t length)
{
	struct reach_receives *v = &pair->receives;
	struct share_receive to;
	char *at;

	if (unlikely(v->posted == v->next || !v->is_known || !reach_begin(r)))
		return deliver_anew(r, pair, length, false);
	/* as in reach_resume() */
	if (likely(atomic_load_explicit(&r->table->closed, memory_order_seq_cst) == v->closed)) {
		to = receive_at(r, pair);
		at = receive_place(v, &to, length);
		if (likely(at))
			return at;
	}
	reach_leave(r);
	return deliver_anew(r, pair, length, false);
}

char *reach_deliver_more(struct reach *r, struct reach_pair *pair, uint64_t length)
{
	struct share_receive to;

	if (unlikely(pair->receives.posted == pair->receives.next))
		return NULL;
	to = receive_at(r, pair);
	return receive_place(&pair->receives, &to, length);
}
