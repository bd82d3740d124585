/* SPDX-License-Identifier: BSD-2-Clause */
/* A rule of fault injection: one line of the language of uroce-fault(5). A rule names an event with filters, a
 * condition, and an action. The struct is a value: it owns nothing. */
#ifndef UROCE_FAULT_RULE_H
#define UROCE_FAULT_RULE_H

#include "base/base.h"

#define RULE_TEXT     256 /* bytes of a rule, with the terminating zero */
#define RULE_DEVICE   64  /* bytes of the name of a device, with the terminating zero */
#define RULE_REPLAYED 384 /* bytes of a firing written as a rule */

enum rule_event {
	RULE_PACKET,   /* `out`, `in`, or `packet` (either) */
	RULE_POST,     /* a work request of the send queue is posted */
	RULE_COMPLETE, /* a completion is written */
	RULE_ONESIDED, /* a WRITE, READ or atomic is about to be done without a packet */
	RULE_CALL,     /* a verb or an rdma_cm call, by name */
	RULE_MAD,      /* a message of connection management */
	RULE_TIME,     /* no event: fires once, at the time given by `after` */
	RULE_MEMORY,   /* a request of the process or of a peer is about to use a region */
	RULE_EVENTS
};

enum rule_action {
	DO_DROP,
	DO_DUPLICATE,
	DO_DELAY,      /* value: ns, from and to */
	DO_REORDER,    /* value: packets that pass first */
	DO_CORRUPT,    /* value: enum rule_part, bit (UINT64_MAX: drawn) */
	DO_TRUNCATE,   /* value: bytes that remain */
	DO_RATE,       /* value: bytes per second */
	DO_PARTITION,  /* no packet passes, retransmitted or not */
	DO_NAK,	       /* value: syndrome */
	DO_RNR,	       /* value: code of the RNR timer */
	DO_LAST_FIRST, /* value: ns, from and to, between the last bytes in memory and the others */
	DO_REVOKE,     /* makes the region that the packet names unknown */
	DO_REFUSE,     /* value: errno of a call or a post */
	DO_STATUS,     /* value: enum ibv_wc_status */
	DO_WAKE,       /* completion channel event for completions already in the CQ */
	DO_OVERRUN,    /* treats the CQ as full */
	DO_REJECT,     /* value: reason of the REJ */
	DO_STOP,       /* stops the peer's process; value: ns */
	DO_KILL,       /* kills the peer's process */
	DO_PORT_DOWN,  /* value: ns until the port is up again; UINT64_MAX: never */
	DO_GID_GONE,   /* value: ns until the GID is back; UINT64_MAX: never */
	DO_FATAL,      /* makes the device fail */
	RULE_ACTIONS
};

/* States of `while`, of the queue pair and of devices. */
enum rule_during {
	WHILE_ALWAYS,
	WHILE_INIT, /* in the order of enum ibv_qp_state */
	WHILE_RTR,
	WHILE_RTS,
	WHILE_SQD,
	WHILE_SQE,
	WHILE_ERR,
	WHILE_PORT_DOWN, /* a rule took the port down */
	WHILE_GID_GONE,
};

enum rule_part { PART_PAYLOAD, PART_HEADER, PART_ICRC };

/* Direction of a packet. For a use of memory: the side that made the request. */
enum rule_direction { RULE_OUT = 1, RULE_IN = 2, RULE_LOCAL = RULE_OUT, RULE_REMOTE = RULE_IN };

/* Opcodes of RULE_MEMORY. */
enum rule_use { USE_READ, USE_WRITE, USE_ATOMIC };

struct rule_range {
	uint64_t from, to;
};
#define RULE_ANY    ((struct rule_range){0, UINT64_MAX})
#define RULE_ALWAYS UINT64_MAX

/* A set of opcodes. Packets: opcodes on the wire; work requests: enum ibv_wr_opcode; completions: enum
 * ibv_wc_opcode; connection management: low byte of the attribute. */
struct rule_set {
	uint64_t bits[4];
};

struct rule {
	char text[RULE_TEXT]; /* the rule as written, trimmed */
	char what[RULE_TEXT]; /* event and filters, without those that a firing adds (qp and nth) */
	uint8_t event;	      /* enum rule_event */
	uint8_t action;	      /* enum rule_action */
	uint8_t direction;    /* enum rule_direction; both bits: either direction */
	bool repeats;	      /* retransmissions count too */
	bool has_peer, has_wr_id;
	uint8_t peer[16];	     /* GID: IPv4 as ::ffff:a.b.c.d */
	struct rule_set opcodes;     /* opcodes that match; never empty */
	struct rule_range qp;	     /* queue pairs, counted from 1 in order of creation */
	struct rule_range qpn;	     /* QPNs */
	struct rule_range psn;	     /* PSNs relative to the first of the connection */
	struct rule_range size;	     /* bytes of payload, request or memory */
	struct rule_range region;    /* regions, counted from 1 in order of registration */
	struct rule_range completes; /* statuses of completions: enum ibv_wc_status */
	char device[RULE_DEVICE];    /* device; "": any, and the action is done to all */
	uint64_t wr_id;
	const char *call; /* RULE_CALL: name of the call, an element of rule_calls */

	struct rule_range nth;
	uint64_t every;
	uint64_t chance;	   /* probability in units of 2^-64; RULE_ALWAYS: no draw */
	struct rule_range between; /* ns since the rules were read */
	uint64_t times;		   /* max firings for each queue pair */
	uint8_t during;		   /* enum rule_during */

	uint64_t value[2];
};

/* Error of a rule. */
struct rule_error {
	uint32_t at, length; /* position and length of the word in the text */
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
