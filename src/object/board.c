/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/board.h"

#include <stdlib.h>
#include <string.h>

/* Distance in packets sent after which a packet is lost: if the peer has one sent this much later. Nearer ones may have
 * overtaken it (RFC 6675, DupThresh). */
#define REORDERING 3

void set_clear(const struct scoreboard *b, struct psn_set *s)
{
	if (s->count)
		memset(s->bits, 0, b->size / 8);
	s->count = 0;
}

void board_clear(struct scoreboard *b, psn_t base)
{
	free(b->repeat);
	b->base = b->top = base;
	b->size = 0;
	b->repeat = NULL;
	b->has = b->lost = b->again = (struct psn_set){0};
}

void board_advance(struct scoreboard *b, psn_t una)
{
	if ((!b->has.count && !b->lost.count && !b->again.count) || !board_covers(b, una)) {
		board_clear(b, una);
		return;
	}
	for (; !psn_equal(b->base, una); b->base = psn_add(b->base, 1)) {
		set_remove(b, &b->has, b->base);
		set_remove(b, &b->lost, b->base);
		set_remove(b, &b->again, b->base);
	}
	if (psn_diff(b->top, una) < 0)
		b->top = una;
}

static void copy_place(struct scoreboard *to, const struct scoreboard *from, psn_t psn)
{
	if (set_has(from, &from->has, psn))
		set_add(to, &to->has, psn);
	if (set_has(from, &from->lost, psn))
		set_add(to, &to->lost, psn);
	if (set_has(from, &from->again, psn))
		set_add(to, &to->again, psn);
	to->repeat[board_place(to, psn)] = from->repeat[board_place(from, psn)];
}

bool board_cover(struct scoreboard *b, psn_t end)
{
	uint32_t wanted = psn_places((uint32_t)psn_diff(end, b->base)), words = wanted / 64;
	struct scoreboard larger = *b;

	if (wanted <= b->size)
		return true;
	larger.repeat = calloc(1, wanted * sizeof(*b->repeat) + 3 * words * sizeof(uint64_t));
	if (!larger.repeat)
		return false;
	larger.size = wanted;
	larger.has = (struct psn_set){.bits = (uint64_t *)(larger.repeat + wanted)};
	larger.lost = (struct psn_set){.bits = larger.has.bits + words};
	larger.again = (struct psn_set){.bits = larger.lost.bits + words};
	for (uint32_t i = 0; i < b->size; i++)
		copy_place(&larger, b, psn_add(b->base, i));
	free(b->repeat);
	*b = larger;
	return true;
}

void board_lose(struct scoreboard *b, psn_t psn)
{
	set_remove(b, &b->again, psn);
	set_add(b, &b->lost, psn);
}

bool board_overtaken(const struct scoreboard *b, psn_t psn)
{
	const struct sent_again *s;

	if (!set_has(b, &b->again, psn))
		return psn_diff(b->top, psn) > REORDERING;
	s = &b->repeat[board_place(b, psn)];
	return psn_diff(b->top, s->next) >= REORDERING || (int32_t)(b->top_turn - s->turn) >= REORDERING;
}

void board_turn(struct scoreboard *b, psn_t psn, uint64_t least_rtt, uint64_t now)
{
	const struct sent_again *s;

	if (!set_has(b, &b->again, psn))
		return;
	s = &b->repeat[board_place(b, psn)];
	/* an earlier arrival is the first copy, which was late */
	if ((int32_t)(s->turn - b->top_turn) > 0 && (uint32_t)(now / USEC) - s->at >= least_rtt / 2 / USEC)
		b->top_turn = s->turn;
}

void board_again(struct scoreboard *b, psn_t psn, psn_t next, uint64_t now)
{
	if (!board_covers(b, psn))
		return;
	set_add(b, &b->again, psn);
	b->repeat[board_place(b, psn)] = (struct sent_again){next, b->turns, (uint32_t)(now / USEC)};
}

void board_received(struct scoreboard *b, psn_t psn, uint64_t least_rtt, uint64_t now)
{
	if (set_has(b, &b->has, psn))
		return;
	set_add(b, &b->has, psn);
	set_remove(b, &b->lost, psn);
	if (psn_diff(psn, b->top) >= 0)
		b->top = psn_add(psn, 1);
	board_turn(b, psn, least_rtt, now);
}

psn_t board_first_lost(const struct scoreboard *b, psn_t una)
{
	psn_t psn = una;

	while (!set_has(b, &b->lost, psn)) {
		uint32_t place = board_place(b, psn);

		psn = psn_add(psn, place % 64 == 0 && !b->lost.bits[place / 64] ? 64 : 1);
	}
	return psn;
}
