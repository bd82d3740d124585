/* What a sender of UC or UD knows of a receiver: how much it has sent there, and how much of that the receiver says to have
 * taken. The rules are in engine/flow.c. It belongs to a QP, whose lock guards it.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_FLOW_H
#define UROCE_FLOW_H

#include <infiniband/verbs.h>

#include "base/base.h"

#define UD_FLOWS 8 /* receivers that a UD QP keeps in mind; a UC QP has one */

/* Counters of all that was sent so far; they wrap. */
struct flow_mark {
	uint32_t bytes;	   /* with what a packet weighs besides */
	uint32_t messages; /* of those that take a receive */
};

enum flow_peer {
	FLOW_NEW,    /* has not answered yet */
	FLOW_HEARD,  /* answers */
	FLOW_SILENT, /* does not, or has no receives for long: nothing waits for it */
};

struct flow {
	union ibv_gid to; /* UD: whom */
	uint32_t qpn;
	enum flow_peer peer;
	struct flow_mark sent, asked, told;
	uint32_t credits;  /* receives that were posted when it answered */
	uint32_t question; /* PSN of the last one */
	bool open;	   /* it is not answered yet */
	uint64_t asked_at;
	uint64_t again_at; /* before that, no other question */
	uint64_t interval; /* to the next one, if this is in vain */
	uint64_t held_at;  /* since when a packet waits; 0: none does */
	uint64_t used;	   /* when it was sent to last */
	void *near;	   /* UD, for loop/: the neighbor through whose ring it goes; NULL: by udp */
	void *next;	   /* ... or is to go, when what it was sent has arrived; NULL: no change */
};

/* Who asks a receive queue: each may hope for a part of its receives. */
struct crowd {
	uint64_t before, now; /* one bit per asker, of the last two periods */
	uint64_t period;
};

#endif
