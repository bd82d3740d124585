/* SPDX-License-Identifier: BSD-2-Clause */
#include "strangers.h"

#include <string.h>

#include "object/early.h"
#include "shortage.h"

static struct dice dice;
static uint64_t forged;

/* Far from what is due and from what is in flight. */
static psn_t draw_far_psn(const struct qp *qp)
{
	psn_t at;

	do
		at = psn((uint32_t)dice_roll(&dice));
	while ((uint32_t)psn_diff(at, psn_add(qp->resp.expected, -SELECTIVE_PSNS)) < 2 * SELECTIVE_PSNS ||
	       (uint32_t)psn_diff(at, psn_add(qp->req.una, -1u)) <= 1u + (uint32_t)psn_diff(qp->req.high, qp->req.una));
	return at;
}

/* What may not be forged without effect is left out: the first request of a connection tells which PSN the peer begins
 * with; another make's congestion notification has no PSN. */
static bool has_effect(const struct qp *qp, uint8_t opcode)
{
	if (opcode == OPCODE_CNP)
		return !qp->resp.peer_is_uroce;
	return opcode_info[opcode].flags & IS_REQUEST && qp->resp.expected.v == qp->attr.rq_psn;
}

NO_LOCK_ANALYSIS static void forge(struct world *w)
{
	static const uint8_t ones[64] = {[0 ... 63] = 0xff};
	const struct end *e = &w->end[dice_below(&dice, w->ends)];
	struct qp *qp = e->qp;
	struct packet p = {
		.opcode = (uint8_t)dice_roll(&dice),
		.pkey = PKEY_DEFAULT,
		.dest_qpn = e->qpn,
		.ack_request = dice_chance(&dice, 0.5),
		.congestion = dice_chance(&dice, 0.5),
		.fecn = dice_chance(&dice, 0.5),
		.becn = dice_chance(&dice, 0.5),
		.is_uroce = dice_chance(&dice, 0.5),
		.syndrome = (uint8_t)dice_roll(&dice),
		.rkey = (uint32_t)dice_roll(&dice),
		.va = dice_roll(&dice),
		.dma_length = (uint32_t)dice_below(&dice, 1 << 20),
		.payload = ones,
		.length = 4 * (uint32_t)dice_below(&dice, 16),
	};

	if (e->state == END_DEAD || !opcode_info[p.opcode].name || has_effect(qp, p.opcode))
		return;
	/* a stranger who asks for an answer needs a key as well, wherever his PSN lies */
	p.psn = p.opcode == OPCODE_ANSWER_AGAIN ? psn((uint32_t)dice_roll(&dice)) : draw_far_psn(qp);
	lock_take(&qp->lock);
	engine_receive(qp, &p, &w->network.gid[e->peer->node->index], w->now, NULL);
	lock_drop(&qp->lock);
	forged++;
}

struct outcome {
	uint64_t packets, digest, ended;
};

static struct outcome run(struct world *w, uint64_t seed, const struct options *options, bool beset)
{
	struct outcome o;

	memset(w, 0, sizeof(*w));
	shortage_begin(seed, 0);
	world_init(w, seed, options);
	dice.state = seed;
	w->beset = beset ? forge : NULL;
	world_run(w);
	o = (struct outcome){w->network.sent, w->network.digest, w->now};
	world_fini(w);
	shortage_end();
	return o;
}

uint64_t strangers_run(struct world *w, uint64_t seed, const struct options *options)
{
	struct outcome alone = run(w, seed, options, false), beset;

	forged = 0;
	beset = run(w, seed, options, true);
	expect(w, NULL, beset.digest == alone.digest && beset.ended == alone.ended,
	       "%lu forged packets: %lu packets in place of %lu, %llu us in place of %llu", forged, beset.packets,
	       alone.packets, beset.ended / USEC, alone.ended / USEC);
	return forged;
}
