/* SPDX-License-Identifier: BSD-2-Clause */
/* The scoreboard of a requester (RFC 6675): which packets its peer has received out of order, which are lost, and which
 * have been sent again; one of its requests, one of the responses that it waits for. Knowledge only: what follows from
 * it is in scoreboard.c and reassembly.c. With qp->lock. */
#ifndef UROCE_ENGINE_BOARD_H
#define UROCE_ENGINE_BOARD_H

#include "object/early.h"
#include "object/qp.h"

/* A bit for each PSN from `una` on. */
struct psn_set {
	uint32_t count;
	uint64_t bits[SELECTIVE_PSNS / 64];
};

/* What is known of packets in [base, base + SELECTIVE_PSNS). */
struct scoreboard {
	psn_t base;		       /* the sets know nothing of PSNs before it */
	psn_t top;		       /* one past the highest PSN that the peer has */
	struct psn_set has, lost;      /* the peer has it; it is lost, and has not been sent again yet */
	struct psn_set again;	       /* it has been sent again, when `next` was ... */
	psn_t sent_at[SELECTIVE_PSNS]; /* ... this, as the so many-th that was sent again: */
	uint32_t turn[SELECTIVE_PSNS];
	uint32_t again_at[SELECTIVE_PSNS]; /* us, modulo 2^32 */
	uint32_t turns, top_turn; /* of the last one that was sent again, and of the last one that the peer has */
	uint32_t lost_ever;	  /* packets */
	uint32_t naks_alone;	  /* since the peer told last what it keeps */
	/* congestion.c: `high`, qp->resent and `lost_ever` at the last look */
	psn_t round;
	uint32_t round_resent, round_lost;
	uint32_t most; /* congestion.c: the window when many were lost; 0: not yet */
};

/* What is known of responses, and whether they are kept: reassembly.c. */
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

static inline uint32_t place_of_psn(psn_t psn)
{
	return psn.v % SELECTIVE_PSNS;
}

static inline bool set_has(const struct psn_set *s, psn_t psn)
{
	return s->bits[place_of_psn(psn) / 64] >> place_of_psn(psn) % 64 & 1;
}

static inline void set_add(struct psn_set *s, psn_t psn)
{
	s->count += !set_has(s, psn);
	s->bits[place_of_psn(psn) / 64] |= 1ull << place_of_psn(psn) % 64;
}

static inline void set_remove(struct psn_set *s, psn_t psn)
{
	s->count -= set_has(s, psn);
	s->bits[place_of_psn(psn) / 64] &= ~(1ull << place_of_psn(psn) % 64);
}

/* Nothing is known of packets from `base` on. */
void board_clear(struct scoreboard *b, psn_t base);
/* Forgets what is acknowledged. */
void board_advance(struct scoreboard *b, psn_t una);
/* The packet is lost. */
void board_lose(struct scoreboard *b, psn_t psn);
/* Whether the packet was sent well before another one that the peer has. */
bool board_overtaken(const struct scoreboard *b, psn_t psn);
/* The peer has this packet. */
void board_received(struct requester *r, struct scoreboard *b, psn_t psn, uint64_t now);
/* The packet was sent again later than those before it that were. */
void board_turn(const struct requester *r, struct scoreboard *b, psn_t psn, uint64_t now);
/* The packet is sent again, while `next` is the next new PSN. */
void board_again(struct scoreboard *b, psn_t psn, psn_t next, uint64_t now);

/* The first that is lost; one is. */
psn_t board_first_lost(const struct scoreboard *b, psn_t una);
/* Of the bytes that have been sent and are not acknowledged, the part that is not in the network. */
void set_absent(struct requester *r);
/* The WQE and the packet of it that have this PSN, which lies in [una, next). */
struct wqe *find_packet(struct qp *qp, psn_t psn, uint32_t *position, uint32_t *packet);
/* Makes r->board. False: there is no memory. */
bool make_board(struct requester *r);
/* Nothing is known any more: the requester goes back and sends everything again. */
void scoreboard_clear(struct qp *qp);
void scoreboard_stop(struct qp *qp);
/* Before the requester sends: forgets what is acknowledged, and sets `absent`. */
void scoreboard_settle(struct qp *qp);
bool scoreboard_misses(const struct requester *r);

static inline bool scoreboard_has_lost(const struct requester *r)
{
	return unlikely(r->board) && scoreboard_misses(r);
}

void reassembly_clear(struct qp *qp);
void reassembly_stop(struct qp *qp);
void reassembly_settle(struct requester *r); /* forgets what is acknowledged */

static inline bool reassembly_can_probe(const struct requester *r)
{
	return r->reads && r->reads->works;
}

#endif
