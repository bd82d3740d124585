/* SPDX-License-Identifier: BSD-2-Clause */
/* What a requester knows of packets that its peer has received out of order, as RFC 6675 has it: one board of its
 * requests, one of the responses that it waits for. Memory is taken for what is in flight when something becomes known
 * of it, and given back when nothing is known any more. What follows from it is in engine/scoreboard.c and
 * engine/reassembly.c. With qp->lock. */
#ifndef UROCE_BOARD_H
#define UROCE_BOARD_H

#include "object/early.h"

/* A bit for each PSN of a scoreboard. */
struct psn_set {
	uint32_t count;
	uint64_t *bits;
};

/* A packet that has been sent again. */
struct sent_again {
	psn_t next;    /* the next new PSN at that time */
	uint32_t turn; /* scoreboard.turns at that time */
	uint32_t at;   /* us, modulo 2^32 */
};

/* What is known of packets in [base, base + size). */
struct scoreboard {
	psn_t base;		   /* the sets know nothing of PSNs before it */
	psn_t top;		   /* one past the highest PSN that the peer has */
	uint32_t size;		   /* a power of two, at most SELECTIVE_PSNS; 0: nothing is known, no memory is held */
	struct sent_again *repeat; /* by place; the bits of the sets follow in the same memory */
	struct psn_set has, lost;  /* the peer has it; it is lost, and has not been sent again yet */
	struct psn_set again;	   /* it has been sent again: see `repeat` */
	uint32_t turns, top_turn;  /* of the last one that was sent again, and of the last one that the peer has */
	uint32_t lost_ever;	   /* packets */
	uint32_t naks_alone;	   /* since the peer told last what it keeps */
	/* congestion.c: `high`, qp->resent and `lost_ever` at the last look */
	psn_t round;
	uint32_t round_resent, round_lost;
	uint32_t most; /* congestion.c: the window when many were lost; 0: not yet */
};

/* What is known of responses, and whether they are kept: engine/reassembly.c. */
struct reassembly {
	struct scoreboard board; /* `has`: the response is kept, or there will be none */
	psn_t from;		 /* nothing is kept before it ... */
	bool gone_back;		 /* ... as it may be answered twice: the requester went back ... */
	uint64_t until;		 /* ... and so long ago that the first answer does not come any more */
	psn_t told;		 /* the peer has taken all before it */
	bool urgent;		 /* ask for one whatever the window */
	bool works;		 /* the peer has answered again */
	uint8_t ignored;	 /* so often it has not */
};

static inline uint32_t board_place(const struct scoreboard *b, psn_t psn)
{
	return psn.v & (b->size - 1);
}

/* Whether the board has room for it. Nothing is known of other packets, and nothing becomes known. */
static inline bool board_covers(const struct scoreboard *b, psn_t psn)
{
	return (uint32_t)psn_diff(psn, b->base) < b->size;
}

static inline bool set_has(const struct scoreboard *b, const struct psn_set *s, psn_t psn)
{
	uint32_t place = board_place(b, psn);

	return board_covers(b, psn) && (s->bits[place / 64] >> place % 64 & 1);
}

static inline void set_add(const struct scoreboard *b, struct psn_set *s, psn_t psn)
{
	uint32_t place = board_place(b, psn);

	if (!board_covers(b, psn) || set_has(b, s, psn))
		return;
	s->count++;
	s->bits[place / 64] |= 1ull << place % 64;
}

static inline void set_remove(const struct scoreboard *b, struct psn_set *s, psn_t psn)
{
	uint32_t place = board_place(b, psn);

	if (!set_has(b, s, psn))
		return;
	s->count--;
	s->bits[place / 64] &= ~(1ull << place % 64);
}

void set_clear(const struct scoreboard *b, struct psn_set *s);

/* Nothing is known of packets from `base` on: gives back the memory. */
void board_clear(struct scoreboard *b, psn_t base);
/* Forgets what is acknowledged. */
void board_advance(struct scoreboard *b, psn_t una);
/* Takes memory for all packets before `end`, as far as SELECTIVE_PSNS. False: there is none. */
bool board_cover(struct scoreboard *b, psn_t end);
/* The packet is lost. */
void board_lose(struct scoreboard *b, psn_t psn);
/* Whether the packet was sent well before another one that the peer has. */
bool board_overtaken(const struct scoreboard *b, psn_t psn);
/* The peer has this packet. `least_rtt`: of the path, ns. */
void board_received(struct scoreboard *b, psn_t psn, uint64_t least_rtt, uint64_t now);
/* The packet was sent again later than those before it that were. */
void board_turn(struct scoreboard *b, psn_t psn, uint64_t least_rtt, uint64_t now);
/* The packet is sent again, while `next` is the next new PSN. */
void board_again(struct scoreboard *b, psn_t psn, psn_t next, uint64_t now);
/* The first that is lost; one is. */
psn_t board_first_lost(const struct scoreboard *b, psn_t una);

#endif
