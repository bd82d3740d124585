/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the other services share: links, each of which carries messages one way, and the pools of
 * receives at their ends. links.c makes them and sends; verdict.c checks what arrived; services.c runs them. One
 * run at a time. */
#ifndef SIM_LINKS_H
#define SIM_LINKS_H

#include "object/ah.h"
#include "world.h"

enum {
	LINKS = 8,
	MESSAGES = 24, /* of a link, at most */
	ROOM = 1600,   /* for each */
	RECEIVES = 16, /* receives of a pool */
	POOLS = LINKS + 2 * NETWORK_NODES,
	GRH = 40,
	QKEY = 0x11111111,
	UNTOUCHED = 0xdd,
	COUNTER = MESSAGES * ROOM, /* where in a target */
	TARGET = COUNTER + 64,
};

enum kind {
	UC,
	UD,
	SHARED, /* RC whose receives come from an SRQ */
	XRC,
	KINDS
};

struct head {
	uint32_t link, number, length;
};

/* Memory with a region over all but its guards. */
struct block {
	uint8_t *bytes; /* of the region */
	uint32_t size;
	struct mr *mr;
};

/* Where receives come from. */
struct supply {
	struct node *node;
	struct srq *srq; /* NULL: they are the QP's own */
	struct qp *qp;
	struct block block;
	bool posted[RECEIVES];
};

struct half {
	struct qp *qp;
	struct node *node;
	uint64_t deadline;
};

struct message {
	enum ibv_wr_opcode opcode;
	uint32_t length, atomics; /* atomics that went before it */
	bool signalled;
};

struct link {
	enum kind kind;
	struct half from, *to;
	struct half own; /* `to`, unless that is another link's */
	struct supply *pool;
	struct block source, target;
	struct ah ah;
	struct message message[MESSAGES];
	uint32_t planned, posted, done, next; /* next: number that may arrive, at least */
	uint32_t taken, atomics, succeeded;   /* messages that arrived; posted atomics; those that came back */
	bool struck, flushed;
	uint64_t tick_at;
};

extern struct services {
	struct world *world;
	struct link link[LINKS];
	uint32_t links;
	struct supply pool[POOLS];
	uint32_t pools;
	struct supply *shared[NETWORK_NODES], *extended[NETWORK_NODES];
	struct xrcd xrcd[NETWORK_NODES];
	enum ibv_mtu mtu;
	double lazy;
	uint64_t near_from; /* from then on datagrams find that their receivers are local peers, whose rings are at
			       times full */
} services;

/* What is sent comes. */
static inline bool is_acknowledged(const struct link *l)
{
	return l->kind == SHARED || l->kind == XRC;
}

/* ---- links.c ---- */

void make_link(enum kind kind);
void move(struct half *h, enum ibv_qp_state to, int mask, struct ibv_qp_attr a);
void post_send(struct link *l);
void refill(struct supply *p); /* with receives, unless its owner is lazy */
void run(struct half *h);      /* the engine, if there is something to send */
void close_block(struct block *b);

/* ---- verdict.c ---- */

uint8_t content(const struct link *l, uint32_t number, uint32_t i); /* of message `number`, byte i */
void poll_node(struct node *n);
void check_link(struct link *l); /* when all is over */

#endif
