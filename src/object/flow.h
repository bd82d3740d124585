/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow control of UC and UD; engine/flow.c has its rules. A `flow` is a sender's view of a receiver: how much was sent
 * there, and how much of that the receiver reports as taken. A `credit` is a receiver's grant to a sender. Both belong
 * to a QP, whose lock guards them except where noted. */
#ifndef UROCE_FLOW_H
#define UROCE_FLOW_H

#include <infiniband/verbs.h>

#include "base/base.h"
#include "base/list.h"

#define UD_FLOWS   8  /* receivers that a UD QP remembers; a UC QP has one */
#define UD_CREDITS 32 /* senders, likewise */

/* Counters of all that was sent; they wrap. */
struct flow_mark {
	uint32_t bytes;	   /* payload, and a charge for each packet */
	uint32_t messages; /* messages that take a receive */
};

enum flow_peer {
	FLOW_NEW,    /* has not answered yet */
	FLOW_HEARD,  /* answers */
	FLOW_SILENT, /* does not answer, or has had no receives for long: no packet waits for it */
};

struct flow {
	union ibv_gid to; /* UD: the other end */
	uint32_t qpn;
	enum flow_peer peer;
	struct flow_mark sent, asked, told;
	uint32_t credits;	 /* receives granted by its last answer, or what may be sent without one */
	uint32_t credit_request; /* PSN of the last credit request */
	bool open;		 /* the credit request has no answer yet */
	uint64_t asked_at;
	uint64_t again_at;	 /* ns: time before which no other credit request is sent */
	uint64_t interval;	 /* ns until the next credit request, without an answer */
	bool for_room;		 /* requester.held: waits for room in the ring or the socket, not for credits */
	uint64_t held_at;	 /* ns: time since which a packet waits; 0: none */
	uint64_t patient_at;	 /* ns: time since which the receiver could have answered */
	uint64_t used;		 /* ns: time of the last packet to the receiver */
	struct local_peer *near; /* UD, for loop/: local peer whose ring is used; NULL: UDP */
	struct local_peer *next; /* local peer to use when all packets sent have arrived; NULL: no change */
};

struct credit {
	union ibv_gid to; /* UD: the other end */
	uint32_t qpn;
	uint64_t asked_at; /* ns: last request; 0: unused, or first sender, without one. Changed under both locks */
	/* Fields guarded by the lock of the receive queue. */
	uint32_t receives; /* receives reserved for this sender */
	uint64_t period;   /* period of the queue in which the grant was made or used last */
	struct list link;  /* in rq->credits while `receives` is not 0 */
};

#endif
