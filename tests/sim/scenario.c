/* SPDX-License-Identifier: BSD-2-Clause */
/* The faults of a run: one entry each. */
#include <string.h>

#include "world.h"

#define PATIENCE (600 * SEC)

static void poison_next(struct world *w, enum poison poison)
{
	w->victim->poison = poison;
}

#define POISONER(name, poison)            \
	static void name(struct world *w) \
	{                                 \
		poison_next(w, poison);   \
	}
POISONER(wrong_rkey, POISON_RKEY)
POISONER(out_of_bounds, POISON_BOUNDS)
POISONER(read_write_only, POISON_WRITE_ONLY)
POISONER(write_read_only, POISON_READ_ONLY)
POISONER(other_domain, POISON_DOMAIN)
POISONER(too_long, POISON_TOO_LONG)
POISONER(wrong_lkey, POISON_LKEY)
POISONER(read_into_constant, POISON_LOCAL)

static void application_error(struct world *w)
{
	w->victim->state = END_CLOSED;
	end_modify(w->victim, IBV_QPS_ERR);
}

static void destroy_peer(struct world *w)
{
	end_destroy_qp(w->victim->peer);
}

static void vanish(struct world *w)
{
	struct node *gone = w->victim->peer->node;

	w->network.dead[gone->index] = true;
	for (uint32_t i = 0; i < w->ends; i++) {
		struct end *e = &w->end[i];

		if (e->node == gone) {
			e->state = END_DEAD;
			e->run_at = NEVER;
			e->stuck = false;
		} else if (e->peer->node == gone) {
			e->permitted |= STATUS(IBV_WC_RETRY_EXC_ERR);
			if (e->stuck)
				e->run_at = w->now; /* its lane is gone */
			e->stuck = false;
		}
	}
}

static void starve(struct world *w)
{
	w->victim->peer->starve = true;
}

static void few_rnr_retries(struct world *w)
{
	w->victim->attr.rnr_retry = (uint8_t)dice_below(&w->dice, 4);
}

static void deregister_target(struct world *w)
{
	struct end *p = w->victim->peer;

	mr_deregister(p->target_mr);
	p->frozen = true;
	arena_adopt(&p->arena, p->target);
}

static void deregister_source(struct world *w)
{
	mr_deregister(w->victim->source_mr);
	w->victim->source_gone = true;
}

static void storm(struct world *w)
{
	w->lane_mtu = 0;
	w->network.quality.fair = false;
	w->network.quality.loss = 0.3;
	for (uint32_t i = 0; i < w->ends; i++) {
		w->end[i].attr.retry_cnt = (uint8_t)dice_below(&w->dice, 8);
		w->end[i].permitted |= STATUS(IBV_WC_RETRY_EXC_ERR);
	}
}

#define REMOTE STATUS(IBV_WC_REM_ACCESS_ERR)
#define LOCAL  STATUS(IBV_WC_LOC_PROT_ERR)

static const struct scenario scenarios[] = {
	{"clean", 60, NULL, NULL, 0, 0, false},
	{"wrong-rkey", 3, NULL, wrong_rkey, REMOTE, 0, true},
	{"out-of-bounds", 3, NULL, out_of_bounds, REMOTE, 0, true},
	{"read-write-only", 3, NULL, read_write_only, REMOTE, 0, true},
	{"write-read-only", 3, NULL, write_read_only, REMOTE, 0, true},
	{"other-domain", 3, NULL, other_domain, REMOTE, 0, true},
	{"too-long", 3, NULL, too_long, STATUS(IBV_WC_REM_INV_REQ_ERR), 0, true},
	{"wrong-lkey", 3, NULL, wrong_lkey, LOCAL, 0, true},
	{"read-into-constant", 3, NULL, read_into_constant, LOCAL, 0, true},
	{"application-error", 4, NULL, application_error, 0, 0, false},
	{"destroy-peer", 3, NULL, destroy_peer, 0, 0, false},
	{"vanish", 4, NULL, vanish, 0, 0, false},
	{"starve", 3, few_rnr_retries, starve, STATUS(IBV_WC_RNR_RETRY_EXC_ERR), 0, false},
	{"deregister-target", 4, NULL, deregister_target, REMOTE, 0, false},
	{"deregister-source", 3, NULL, deregister_source, LOCAL, 0, false},
	{"storm", 3, storm, NULL, 0, 0, false},
};

static const struct scenario *draw(struct dice *d)
{
	uint32_t sum = 0, roll;

	for (size_t i = 0; i < ARRAY_SIZE(scenarios); i++)
		sum += scenarios[i].weight;
	roll = (uint32_t)dice_below(d, sum);
	for (size_t i = 0; i < ARRAY_SIZE(scenarios); i++) {
		if (roll < scenarios[i].weight)
			return &scenarios[i];
		roll -= scenarios[i].weight;
	}
	return &scenarios[0];
}

void scenario_draw(struct world *w, const char *name)
{
	w->scenario = draw(&w->dice);
	for (size_t i = 0; name && i < ARRAY_SIZE(scenarios); i++)
		if (!strcmp(name, scenarios[i].name))
			w->scenario = &scenarios[i];
	w->victim = &w->end[dice_below(&w->dice, w->ends)];
	w->strike_after = (uint32_t)dice_below(&w->dice, w->victim->planned);
	w->victim->permitted = w->scenario->victim;
	w->victim->peer->permitted = w->scenario->peer;
	/* requests that fail on purpose may be READs */
	w->victim->attr.max_rd_atomic = max_of(w->victim->attr.max_rd_atomic, 1);
	w->victim->peer->attr.max_dest_rd_atomic = max_of(w->victim->peer->attr.max_dest_rd_atomic, 1);
	w->spoiled = w->scenario != &scenarios[0];
	/* of the peer's receive: the message is too long for it; a WRITE with immediate may not write */
	w->victim->peer->recv_permitted = STATUS(IBV_WC_LOC_LEN_ERR) | STATUS(IBV_WC_LOC_ACCESS_ERR);
	if (w->scenario->prepare)
		w->scenario->prepare(w);
}

static void close_end(struct end *e)
{
	if (e->state != END_WORKS)
		return;
	e->state = END_CLOSED;
	end_modify(e, IBV_QPS_ERR);
}

static bool has_failed(const struct end *e)
{
	return e->first_error >= 0 || e->fatal || e->recv_failed || e->state == END_CLOSED;
}

/* An application that sees an error closes both ends (they talk of it by other means): soon, or when all that
 * is outstanding has failed by itself. */
static void tidy_up(struct end *e)
{
	struct world *w = e->world;
	struct end *p = e->peer;

	if (!has_failed(e) && !(has_failed(p) || p->state == END_DEAD))
		return;
	if (!e->close_at) {
		e->patient = p->patient = dice_chance(&w->dice, 0.5);
		if (p->state == END_DEAD && !has_failed(e))
			e->patient = true; /* it does not know yet */
		e->close_at = p->close_at = w->now + (e->patient ? PATIENCE : dice_below(&w->dice, 5 * MSEC));
	}
	if (p->state == END_DEAD && !has_failed(e))
		return;
	if (w->now >= e->close_at || (e->patient && end_is_idle(e) && end_is_idle(p))) {
		expect(w, e, !e->patient || w->now < e->close_at,
		       "requests are outstanding, and the peer is long gone");
		close_end(e);
		close_end(p);
	}
}

void scenario_watch(struct world *w)
{
	if (w->scenario->strike && !w->struck && w->victim->posted >= w->strike_after &&
	    w->victim->state == END_WORKS && w->victim->first_error < 0 && dice_chance(&w->dice, 0.3)) {
		say(w, w->victim, "%s strikes", w->scenario->name);
		w->struck = true;
		w->struck_at = w->now;
		w->scenario->strike(w);
	}
	for (uint32_t i = 0; w->spoiled && i < w->ends; i++)
		tidy_up(&w->end[i]);
}
