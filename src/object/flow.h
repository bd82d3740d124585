/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow control of UC and UD, whose rules are in engine/flow.c. A `flow` is what a sender knows of a receiver: how much
 * it has sent there, and how much of that the receiver says to have taken. A `credit` is what a receiver has told a
 * sender: the rest of it, that is. They belong to a QP, whose lock guards them but for what says otherwise. */
#ifndef UROCE_FLOW_H
#define UROCE_FLOW_H

#include <infiniband/verbs.h>

#include "base/base.h"
#include "base/list.h"

#define UD_FLOWS   8  /* receivers that a UD QP keeps in mind; a UC QP has one */
#define UD_CREDITS 32 /* ... and senders */

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
	uint32_t credits;	 /* receives that it granted when it answered */
	uint32_t credit_request; /* PSN of the last one */
	bool open;		 /* it is not answered yet */
	uint64_t asked_at;
	uint64_t again_at;	 /* before that, no other question */
	uint64_t interval;	 /* to the next one, if this is in vain */
	uint64_t held_at;	 /* since when a packet waits; 0: none does ... */
	uint64_t patient_at;	 /* ... and since when the receiver has been able to answer */
	uint64_t used;		 /* when it was sent to last */
	struct local_peer *near; /* UD, for loop/: the local peer through whose ring it goes; NULL: by udp */
	struct local_peer *next; /* ... or is to go, when what it was sent has arrived; NULL: no change */
};

struct credit {
	union ibv_gid to; /* UD: whom */
	uint32_t qpn;
	uint64_t asked_at; /* 0: it is nobody's, or of the first one, who has not asked yet; changed under both locks */
	/* guarded by the receive queue's lock */
	uint32_t receives; /* that are for this sender and no other */
	uint64_t period;   /* of the queue, in which it was made or used last */
	struct list link;  /* in rq->promises while there are any */
};

#endif
