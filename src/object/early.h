/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that came before their turn, because one before them was lost or overtaken. Adapters drop them, and the peer
 * sends all of them again (go-back-N). Between two uroce the responder keeps them, tells the requester which it has (a
 * selective acknowledgement, wire/sack.h), and executes them in order when those before have come. So the program sees
 * no difference: nothing is executed, placed or completed out of order.
 *
 * Called with the lock of the packets' QP. */
#ifndef UROCE_EARLY_H
#define UROCE_EARLY_H

#include "wire/packet.h"
#include "wire/sack.h"

/* PSNs that both ends keep in view: more than 10 Gb/s x 10 ms in packets of 1 KiB. */
#define SELECTIVE_PSNS 16384u

/* Places of a table of `psns` PSNs by their lowest bits: a power of two, 64 at least. */
static inline uint32_t psn_places(uint32_t psns)
{
	return psns <= 64 ? 64 : psns >= SELECTIVE_PSNS ? SELECTIVE_PSNS : 2u << (31 - __builtin_clz(psns - 1));
}

/* Waiting packets, at least one. The memory is for the PSNs from the expected one to the last that waits. */
struct early;

/* Keeps a copy of a packet that takes `span` PSNs and comes before `expected`. *e is made if it is NULL. False: too
 * early, no memory, or the limit is reached (EARLY_MOST): the packet counts as lost. */
bool early_keep(struct early **e, psn_t expected, const struct packet *p, uint32_t span);

/* The packet that waits at this PSN, and goes on waiting; NULL: none. `e` may be NULL. */
const struct packet *early_at(const struct early *e, psn_t psn);
/* The packet whose turn it is; early_done() frees it. NULL: not come. *e is freed and NULL when no packet waits any
 * longer. */
struct packet *early_next(struct early **e, psn_t expected);
void early_done(struct packet *p);

/* Writes the payload of a selective acknowledgement; returns its length in bytes. Some packet waits. *newest: whether
 * the last payload that had no room for all packets showed the newest. It outlives the packets that wait. */
uint32_t early_tell(struct early *e, psn_t expected, bool *newest, uint8_t payload[SACK_PAYLOAD]);

/* The lowest PSN at which a packet waits, from `from` on. False: none does; `e` may be NULL. */
bool early_first(const struct early *e, psn_t from, psn_t *first);

/* Drops all waiting packets: *e becomes NULL, and may be so before. */
void early_drop(struct early **e);

/* Data of the responses to a READ, from one PSN on: engine/kept.c. Counted as waiting packets are. */
struct kept_read {
	struct kept_read *next; /* next of those that a tx batch may still refer to */
	psn_t psn;
	uint32_t length; /* bytes */
	char bytes[];
};

/* NULL: there is no memory, or too much is kept already. */
struct kept_read *kept_read_make(psn_t psn, uint32_t length);
void kept_read_free(struct kept_read *k); /* NULL is allowed */
void kept_read_free_all(struct kept_read **first);

#endif
