/* SPDX-License-Identifier: BSD-2-Clause */
/* A rule of fault injection: one line of the language that uroce-fault(5) describes. A rule says what is hit (an event
 * and its filters), when, and what is done. It is a value: it owns nothing, and its parser changes nothing else. */
#ifndef UROCE_FAULT_RULE_H
#define UROCE_FAULT_RULE_H

#include "base/base.h"

#define RULE_TEXT     256 /* bytes of a rule, with the terminating zero */
#define RULE_DEVICE   64  /* bytes of the name of a device, with the terminating zero */
#define RULE_REPLAYED 384 /* bytes of a firing that is written as a rule */

enum rule_event {
	RULE_PACKET,   /* out, in, packet (either) */
	RULE_POST,     /* a work request of the send queue is posted */
	RULE_COMPLETE, /* a completion is written */
	RULE_ONESIDED, /* a WRITE, READ or atomic is about to be done without a packet */
	RULE_CALL,     /* a verb or a call of rdma_cm, by name */
	RULE_MAD,      /* a message of connection management */
	RULE_TIME,     /* no event: fires once, at the time of `after` */
	RULE_MEMORY,   /* a request of the process or of a peer is about to use a region */
	RULE_EVENTS
};

enum rule_action {
	DO_DROP,
	DO_DUPLICATE,
	DO_DELAY,      /* value: ns, from .. to */
	DO_REORDER,    /* value: packets that pass first */
	DO_CORRUPT,    /* value: enum rule_part, bit (UINT64_MAX: the seed chooses) */
	DO_TRUNCATE,   /* value: bytes that stay */
	DO_RATE,       /* value: bytes a second */
	DO_PARTITION,  /* nothing passes, repeated or not */
	DO_NAK,	       /* value: syndrome */
	DO_RNR,	       /* value: code of the timer */
	DO_LAST_FIRST, /* value: ns, from .. to, by which the last bytes are in memory before the others */
	DO_REVOKE,     /* the region that the packet names becomes unknown */
	DO_REFUSE,     /* value: errno, of a call or a post */
	DO_STATUS,     /* value: enum ibv_wc_status */
	DO_WAKE,       /* an event of the completion channel for what is in the CQ already */
	DO_OVERRUN,    /* the CQ has no room */
	DO_REJECT,     /* value: reason of a REJ */
	DO_STOP,       /* the peer's process, value: ns */
	DO_KILL,       /* the peer's process */
	DO_PORT_DOWN,  /* value: ns until it is up again; UINT64_MAX: never */
	DO_GID_GONE,   /* value: ns until it is back; UINT64_MAX: never */
	DO_FATAL,      /* the device */
	RULE_ACTIONS
};

/* `while`: states of the queue pair, and of devices. */
enum rule_during {
	WHILE_ALWAYS,
	WHILE_INIT, /* in the order of enum ibv_qp_state */
	WHILE_RTR,
	WHILE_RTS,
	WHILE_SQD,
	WHILE_SQE,
	WHILE_ERR,
	WHILE_PORT_DOWN, /* a rule has taken the port down */
	WHILE_GID_GONE,
};

enum rule_part { PART_PAYLOAD, PART_HEADER, PART_ICRC };

/* Direction of a packet; of a use of memory, the side whose request it is. */
enum rule_direction { RULE_OUT = 1, RULE_IN = 2, RULE_LOCAL = RULE_OUT, RULE_REMOTE = RULE_IN };

/* Opcodes of RULE_MEMORY. */
enum rule_use { USE_READ, USE_WRITE, USE_ATOMIC };

struct rule_range {
	uint64_t from, to;
};
#define RULE_ANY    ((struct rule_range){0, UINT64_MAX})
#define RULE_ALWAYS UINT64_MAX

/* A set of opcodes: of packets as on the wire, of work requests enum ibv_wr_opcode, of completions enum ibv_wc_opcode,
 * of messages of connection management the low byte of the attribute. */
struct rule_set {
	uint64_t bits[4];
};

struct rule {
	char text[RULE_TEXT]; /* the rule as it was written, without space around it */
	char what[RULE_TEXT]; /* event and filters, without those that a firing says itself (qp and nth) */
	uint8_t event;	      /* enum rule_event */
	uint8_t action;	      /* enum rule_action */
	uint8_t direction;    /* enum rule_direction, both bits: either */
	bool repeats;	      /* retransmissions count as well */
	bool has_peer, has_wr_id;
	uint8_t peer[16];	     /* a GID: IPv4 as ::ffff:a.b.c.d */
	struct rule_set opcodes;     /* opcodes that are hit; never empty */
	struct rule_range qp;	     /* queue pairs, counted from 1 as the process creates them */
	struct rule_range qpn;	     /* numbers of queue pairs */
	struct rule_range psn;	     /* PSNs, counted from the first of the connection, 0 */
	struct rule_range size;	     /* bytes of payload, of the request, or of memory */
	struct rule_range region;    /* regions, counted from 1 as the process registers them */
	struct rule_range completes; /* statuses of completions: enum ibv_wc_status */
	char device[RULE_DEVICE];    /* name of the device; "": any, and the action is done to all */
	uint64_t wr_id;
	const char *call; /* RULE_CALL: name of the call, an element of rule_calls */

	struct rule_range nth;
	uint64_t every;
	uint64_t chance;	   /* probability, in 2^-64; RULE_ALWAYS: nothing is drawn */
	struct rule_range between; /* ns since the rules began */
	uint64_t times;		   /* firings at most, for each queue pair */
	uint8_t during;		   /* enum rule_during */

	uint64_t value[2];
};

/* What is wrong with a rule. */
struct rule_error {
	uint32_t at, length; /* place and length of the word in the text that was given */
	char text[200];
};

static inline bool rule_in(struct rule_range range, uint64_t n)
{
	return n >= range.from && n <= range.to;
}

static inline bool rule_has(const struct rule_set *set, uint8_t opcode)
{
	return set->bits[opcode / 64] >> opcode % 64 & 1;
}

static inline bool rule_set_is_empty(const struct rule_set *set)
{
	return !(set->bits[0] | set->bits[1] | set->bits[2] | set->bits[3]);
}

#endif
