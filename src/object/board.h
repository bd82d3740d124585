/* SPDX-License-Identifier: BSD-2-Clause */
/* Boards of a requester: packets that its peer has received out of order, as RFC 6675 has it; one board of its
 * requests, one of the responses that it waits for. Memory is taken for the packets in flight when something becomes
 * known of them, and given back when nothing is known any more. engine/scoreboard.c and engine/reassembly.c use them.
 * With qp->lock. */
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
	psn_t next;    /* next new PSN at that time */
	uint32_t turn; /* scoreboard.turns at that time */
	uint32_t at;   /* us, modulo 2^32 */
};

/* Knowledge of packets in [base, base + size). */
struct scoreboard {
	psn_t base;		   /* the sets know nothing of PSNs before it */
	psn_t top;		   /* one past the highest PSN that the peer has */
	uint32_t size;		   /* a power of two, at most SELECTIVE_PSNS; 0: nothing is known, no memory is held */
	struct sent_again *repeat; /* by place; the bits of the sets follow in the same memory */
	struct psn_set has, lost;  /* packets that the peer has; packets lost and not sent again yet */
	struct psn_set again;	   /* packets sent again: see `repeat` */
	uint32_t turns, top_turn;  /* turn of the last packet sent again; of the last one that the peer has */
	uint32_t lost_ever;	   /* number of packets lost ever */
	uint32_t naks_alone;	   /* NAKs since the peer last told what it keeps */
	/* Values of `high`, qp->resent and `lost_ever` at the last look of congestion.c. */
	psn_t round;
	uint32_t round_resent, round_lost;
	uint32_t most; /* window at the last heavy loss, for congestion.c; 0: none yet */
};

/* Knowledge of responses, and whether they are kept: engine/reassembly.c. */
struct reassembly {
	struct scoreboard board; /* `has`: the response is kept, or there will be none */
	psn_t from;		 /* PSN before which no response is kept */
	bool gone_back;		 /* the requester went back, so responses before `from` may come twice */
	uint64_t until;		 /* ns: time after which the first answer no longer comes */
	psn_t told;		 /* PSN before which the peer has taken all */
	bool urgent;		 /* one is to be requested whatever the window */
	bool works;		 /* the peer has answered such a request */
	uint8_t ignored;	 /* consecutive such requests without an answer */
};

static inline uint32_t board_place(const struct scoreboard *b, psn_t psn)
{
	return psn.v & (b->size - 1);
}

/* True if the board covers the PSN. Nothing is known of other packets, and nothing becomes known. */
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

/* Forgets packets from `base` on and gives back the memory. */
void board_clear(struct scoreboard *b, psn_t base);
/* Forgets acknowledged packets: those before `una`. */
void board_advance(struct scoreboard *b, psn_t una);
/* Takes memory for all packets before `end`, as far as SELECTIVE_PSNS. False: no memory. */
bool board_cover(struct scoreboard *b, psn_t end);
/* Marks a packet as lost. */
void board_lose(struct scoreboard *b, psn_t psn);
/* True if the packet was sent well before another one that the peer has. */
bool board_overtaken(const struct scoreboard *b, psn_t psn);
/* Marks a packet as received by the peer. `least_rtt`: of the path, ns. */
void board_received(struct scoreboard *b, psn_t psn, uint64_t least_rtt, uint64_t now);
/* Notes that the packet was sent again later than those before it. */
void board_turn(struct scoreboard *b, psn_t psn, uint64_t least_rtt, uint64_t now);
/* Marks a packet as sent again, while `next` is the next new PSN. */
void board_again(struct scoreboard *b, psn_t psn, psn_t next, uint64_t now);
/* The first lost packet; there is one. */
psn_t board_first_lost(const struct scoreboard *b, psn_t una);

#endif
