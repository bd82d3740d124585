/* SPDX-License-Identifier: BSD-2-Clause */
/* What a requester knows of packets that its peer has received out of order (the scoreboard of RFC 6675), and what
 * follows from it: which packets are lost and are sent again. With qp->lock. */
#ifndef UROCE_SCOREBOARD_H
#define UROCE_SCOREBOARD_H

#include "engine/internal.h"

/* A bit for each PSN from `una` on. */
struct psn_set {
	uint32_t count;
	uint64_t bits[SELECTIVE_PSNS / 64];
};

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

/* ---- of either scoreboard ---- */

void board_clear(struct scoreboard *b, psn_t base);
/* Forgets what is acknowledged. */
void board_advance(struct scoreboard *b, psn_t una);
void board_lose(struct scoreboard *b, psn_t psn);
/* Whether the packet was sent well before another one that the peer has. */
bool board_overtaken(const struct scoreboard *b, psn_t psn);
/* It is there. */
void board_received(struct requester *r, struct scoreboard *b, psn_t psn, uint64_t now);
/* Later than what was sent again before it. */
void board_turn(const struct requester *r, struct scoreboard *b, psn_t psn, uint64_t now);
/* It is sent again, when `next` is the next PSN. */
void board_again(struct scoreboard *b, psn_t psn, psn_t next, uint64_t now);
/* The first that is lost; one is. */
psn_t board_first_lost(const struct scoreboard *b, psn_t una);

/* ---- of requests ---- */

/* Of the bytes that have been sent and are not acknowledged, the part that is not in the network. */
void set_absent(struct requester *r);
/* The WQE and the packet of it that have this PSN, which lies in [una, next). */
struct wqe *find_packet(struct qp *qp, psn_t psn, uint32_t *position, uint32_t *packet);
/* Whether the window lets a packet go that is sent again. */
bool window_allows_repair(const struct requester *r);
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
/* Sends packets that are lost again. False: not all, as the window or the tx batch is full. */
bool scoreboard_repair(struct qp *qp, struct tx_batch *batch);
/* Whether the window lets one of them go. */
bool scoreboard_may_repair(const struct qp *qp);

/* A NAK says that this packet is missing, which the peer expects next. False: it is not known to be lost, and was sent
 * again already. */
bool scoreboard_missing(struct qp *qp, psn_t psn);
/* Nothing has been heard for long: all that the peer is not known to have is lost, or (`below`) all before what it has
 * out of order. False: there is nothing of that kind. */
bool scoreboard_lose_all(struct qp *qp, bool below);

#endif
