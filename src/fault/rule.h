/* SPDX-License-Identifier: BSD-2-Clause */
/* A rule of fault injection: one line of the language that uroce-fault(5) describes. A rule says what is hit (an event
 * and its filters), when, and what is done. It is a value: it owns nothing, and its parser changes nothing else. */
#ifndef UROCE_FAULT_RULE_H
#define UROCE_FAULT_RULE_H

#include "base/base.h"

#define RULE_TEXT     256 /* bytes of a rule, its end included */
#define RULE_DEVICE   64  /* bytes of the name of a device, its end included */
#define RULE_REPLAYED 384 /* bytes of a firing, written as a rule */

enum rule_event {
	RULE_PACKET,   /* out, in, packet (either) */
	RULE_POST,     /* a work request of the send queue is posted */
	RULE_COMPLETE, /* a completion is written */
	RULE_ONESIDED, /* a WRITE, READ or atomic is about to be done without a packet */
	RULE_CALL,     /* a verb or a call of rdma_cm, by name */
	RULE_MAD,      /* a message of connection management */
	RULE_TIME,     /* none: once, at the time that `after` says */
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
	DO_LAST_FIRST, /* value: ns, from .. to, by which the last bytes are there before the others */
	DO_REVOKE,     /* the region that the packet names is not there any more */
	DO_REFUSE,     /* value: errno, of a call or a post */
	DO_STATUS,     /* value: enum ibv_wc_status */
	DO_WAKE,       /* an event of the completion channel for what is in the CQ already */
	DO_OVERRUN,    /* the CQ has no room */
	DO_REJECT,     /* value: reason of a REJ */
	DO_STOP,       /* the peer's process, value: ns */
	DO_KILL,       /* the peer's process */
	DO_PORT_DOWN,  /* value: ns until it is up again; UINT64_MAX: never */
	DO_GID_GONE,   /* value: the same */
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

/* Of memory: whose request uses it. */
enum rule_direction { RULE_OUT = 1, RULE_IN = 2, RULE_LOCAL = RULE_OUT, RULE_REMOTE = RULE_IN };

/* What is done to memory: its opcodes. */
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
	char text[RULE_TEXT]; /* as it was written, without space around it */
	char what[RULE_TEXT]; /* the event and its filters, but those that a firing says itself (qp and nth) */
	uint8_t event;	      /* enum rule_event */
	uint8_t action;	      /* enum rule_action */
	uint8_t direction;    /* enum rule_direction, both bits: either */
	bool repeats;	      /* what is sent again counts as well */
	bool has_peer, has_wr_id;
	uint8_t peer[16];	     /* a GID: IPv4 as ::ffff:a.b.c.d */
	struct rule_set opcodes;     /* none: cannot be */
	struct rule_range qp;	     /* the queue pairs of the process are counted from 1 as they are made */
	struct rule_range qpn;	     /* ... or their numbers */
	struct rule_range psn;	     /* counted from the first of the connection, 0 */
	struct rule_range size;	     /* bytes of payload, of the request, or of memory */
	struct rule_range region;    /* the regions of the process are counted from 1 as they are registered */
	struct rule_range completes; /* enum ibv_wc_status: which completions */
	char device[RULE_DEVICE];    /* its name; "": any, and what is done is done to all */
	uint64_t wr_id;
	const char *call; /* RULE_CALL: its name, in the table of rule_words.c */

	struct rule_range nth;
	uint64_t every;
	uint64_t chance;	   /* of 2^64; RULE_ALWAYS: it does not depend on chance */
	struct rule_range between; /* ns since the rules began */
	uint64_t times;		   /* at most, for each queue pair */
	uint8_t during;		   /* enum rule_during */

	uint64_t value[2];
};

/* What is wrong with a rule. */
struct rule_error {
	uint32_t at, length; /* the word, in the text that was given */
	char text[200];
};

/* Parses one rule: text up to its end. 0, or -EINVAL with *error filled in: it does not parse, or it could never fire.
 */
int rule_parse(struct rule *rule, const char *text, struct rule_error *error);

/* Writes "rule: <text>", the carets under the word, and the reason, to `out`. */
void rule_complain(char *out, size_t room, const char *text, const struct rule_error *error);

/* The next of several rules, which newlines and semicolons separate; # begins a comment that ends with the line.
 * Writes it, trimmed, to `out`, and advances *at. 1: there is one; 0: no more; -E2BIG: it is too long. */
int rule_next(const char **at, char out[RULE_TEXT]);

/* The text of the rules: as given, or of the file that "@FILE" names. The caller frees it. NULL: errno. */
char *rules_read(const char *given);

/* The firing `n` of the rule on that queue pair (0: none), written as a rule: replayed, it fires there and only there.
 * `value`: as it was decided. Returns the length. */
int rule_write(char *out, size_t room, const struct rule *rule, uint64_t qp, uint64_t n, const uint64_t value[2]);

extern const char *const rule_event_name[RULE_EVENTS];
extern const char *const rule_action_name[RULE_ACTIONS];

static inline bool rule_in(struct rule_range range, uint64_t n)
{
	return n >= range.from && n <= range.to;
}

static inline bool rule_has(const struct rule_set *set, uint8_t opcode)
{
	return set->bits[opcode / 64] >> opcode % 64 & 1;
}

#endif
