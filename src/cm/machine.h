/* SPDX-License-Identifier: BSD-2-Clause */
/* IB connection management (IBTA chapter 12) without I/O: messages, calls and the time go in; messages,
 * events and one deadline come out. It knows communication ids, not services: who listens is asked of
 * ops->request().
 *
 * All functions are called with machine->lock held, and call ops with it held. A connection belongs to its
 * user from connection_open(), or from the ops->request() that took it, until connection_release(); the
 * machine keeps it for as long as its peer may still send for it. */
#ifndef UROCE_MACHINE_H
#define UROCE_MACHINE_H

#include "base/list.h"
#include "base/lock.h"
#include "base/pool.h"
#include "base/siphash.h"
#include "base/timer.h"
#include "cm/sources.h"
#include "wire/cm_mad.h"

enum {
	CONNECTION_LIMIT = 65536, /* of a process, those in timewait included */
	CM_BUCKETS = 1024,
	CM_RESPONSE_TIMEOUT = 20, /* 4.3 s: what we allow peers, and ask of them */
	CM_RETRIES = 15,
	CM_SERVICE_TIMEOUT = 24, /* 69 s: what an MRA asks for the application */
	CM_ACK_TIMEOUT = 17,	 /* 0.5 s: of the path, as the kernel has it for RoCE */
};

/* A message is sent again after this time at first, then after twice as long each time, up to the response
 * timeout; and it is given up when that timeout has passed (1 + retries) times. A peer that is only slow
 * answers by an MRA. */
#define CM_FIRST_RETRY (50 * MSEC)

/* A program that connects may be quicker than the one that is about to listen; programs are written as if it never was.
 * So one that asks for a service that is not there is refused only after this time, and after it has asked again. */
#define CM_PATIENCE (120 * MSEC)

/* What requests may cost that nobody has accepted, or whose answer nobody has confirmed. */
enum {
	CM_UNPROVEN_MAX = 128,	 /* half-open, of addresses that have proven nothing: beyond that they have to */
	CM_SOURCE_MAX = 2048,	 /* half-open, of one address: beyond that it has to ask again */
	CM_HALF_OPEN_MAX = 8192, /* half-open in all: beyond that the oldest goes */
	CM_ANSWERED_MAX = 16384, /* that are remembered, in case they are asked again: likewise */
	CM_AMPLIFICATION =
		3, /* messages for each that an address sends which has proven nothing; all have one length */
};

enum connection_state {
	CM_FREE,
	CM_IDLE,
	CM_REQ_SENT,
	CM_REQ_HELD, /* nobody listens, yet */
	CM_REQ_RECEIVED,
	CM_REP_SENT,
	CM_REP_RECEIVED,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RECEIVED,
	CM_REJ_SENT, /* and ready to send it again */
	CM_TIMEWAIT,
	CM_SIDR_REQ_SENT,
	CM_SIDR_REQ_HELD,
	CM_SIDR_REQ_RECEIVED,
	CM_SIDR_REP_SENT, /* and ready to send it again */
	CM_STATES
};

enum cm_event {
	CM_EVENT_REPLIED,      /* a REP has come: connection_ready() or connection_reject() */
	CM_EVENT_ESTABLISHED,  /* an RTU has come, or what proves that it was sent */
	CM_EVENT_REJECTED,     /* by a REJ; status: enum cm_reason */
	CM_EVENT_UNREACHABLE,  /* no answer to a REQ, REP or SIDR_REQ; status: -ETIMEDOUT */
	CM_EVENT_DISCONNECTED, /* a DREQ or DREP has come; without `mad`, status -ETIMEDOUT: no DREP did */
	CM_EVENT_TIMEWAIT_EXIT,
	CM_EVENT_FOUND, /* a SIDR_REP has come; status: enum cm_sidr_status */
};

/* From where to where messages go. */
struct cm_address {
	union ibv_gid local, remote; /* IPv4 as ::ffff:a.b.c.d */
	uint8_t traffic_class;
};

struct machine;
struct connection;

struct machine_ops {
	void (*send)(struct machine *m, const struct cm_address *to, const uint8_t mad[CM_MAD_BYTES]);
	/* `mad` is NULL if no message caused it. The handler calls nothing here. */
	void (*event)(void *user, enum cm_event event, int status, const struct cm_mad *mad);
	/* A REQ or SIDR_REQ. Returns 0: taken, *user is what events will be told; positive: refused, enum
	 * cm_reason or enum cm_sidr_status; negative: not now, the peer will ask again. */
	int (*request)(struct connection *c, const struct cm_mad *mad, void **user);
	/* The peer has said which id it has: c->remote_id. The handler may call nothing here. May be NULL. */
	void (*met)(const struct connection *c);
	/* A REQ or SIDR_REQ goes out again. Who finds out why it has to says machine_absent(), but not from here. May
	 * be NULL. */
	void (*unanswered)(const struct connection *c);
	/* The machine's deadline is earlier than before. */
	void (*deadline)(struct machine *m, uint64_t when);
};

/* Connections that peers have begun, by what is held for them. */
enum cm_age {
	CM_AGE_NONE,
	CM_AGE_HALF_OPEN,
	CM_AGE_ANSWERED, /* kept for the sake of requests that are repeated */
	CM_AGES
};

struct machine {
	const struct machine_ops *ops;
	struct lock lock;
	uint8_t slot;				 /* the top byte of all communication ids */
	struct siphash_key key;			 /* of ids and transactions: a stranger cannot foresee them */
	uint64_t transactions GUARDED_BY(&lock); /* counts up with each that is drawn */
	uint32_t alive; /* connections: guarded by lock, which close_connection() cannot name */
	struct pool connections;
	struct timers timers;
	struct list by_remote[CM_BUCKETS] GUARDED_BY(
		&lock); /* of connections that know their peer's id: by that and its address */
	struct list by_qpn[CM_BUCKETS] GUARDED_BY(&lock); /* ... its QPN: by that and its address */
	struct {
		struct list oldest;
		uint32_t count;
	} aging[CM_AGES];
	uint32_t unproven; /* half-open connections of addresses that have proven nothing */
	struct sources sources;
};

struct connection {
	struct machine *machine;
	uint32_t index;
	uint32_t id, remote_id; /* 0: not known */
	uint8_t uses;		/* of this place, whose id is another each time */
	enum connection_state state;
	void *user; /* NULL: it has been released */
	struct cm_address address;
	uint32_t local_qpn, remote_qpn;
	uint64_t remote_guid; /* of the peer's adapter; 0: not known */
	uint64_t challenge;   /* the transaction that asks a peer whether it is still connected; 0: it has not been
				      asked */
	uint64_t transaction;
	uint64_t request; /* the transaction of the REQ or SIDR_REQ that it began with, of one that came */
	uint8_t about;	  /* which message a REJ of ours speaks of: enum cm_about */
	uint64_t timeout; /* ns: what the peer may take to answer */
	uint8_t retries;  /* this many times more */
	bool is_passive;  /* the peer has begun it */
	bool is_proven;	  /* what we send to that address arrives there, as far as we know */
	uint32_t credit;  /* messages that may still be sent before that */
	enum cm_age age;
	bool delayed;	   /* by an MRA of ours: the peer will not soon ask again, so a REJ is repeated */
	uint64_t interval; /* ns: to the next repetition but one */
	uint64_t give_up;  /* ns: the end of repetitions */
	uint64_t deadline; /* ns, NEVER: none */
	struct timer timer;
	struct list remote, qpn;       /* in by_remote, by_qpn */
	struct list aging;	       /* in machine->aging[age] */
	uint8_t message[CM_MAD_BYTES]; /* what is sent again; of one that is held: what has been received */
};

/* 0 or -ENOMEM. `slot` goes into the ids (see loop/gsi.h); `seed`, of random bits, makes the rest of them. The lock is
 * left as it is: all zeros of one that is new, and held where others may know the machine already. */
int machine_init(struct machine *m, const struct machine_ops *ops, uint8_t slot, uint64_t seed);
void machine_fini(struct machine *m);

/* A message from address->remote has come to address->local. */
void machine_receive(struct machine *m, const uint8_t mad[CM_MAD_BYTES], const struct cm_address *address, uint64_t now)
	REQUIRES(m->lock);
/* Whatever is due at `now`. */
void machine_expire(struct machine *m, uint64_t now) REQUIRES(m->lock);
/* The process in that slot of our own host has died: its connections to us end as if it had said so. */
void machine_bury(struct machine *m, uint8_t slot, uint64_t now) REQUIRES(m->lock);
/* Nobody is there whom the connection with this id asks: -ECONNREFUSED, which is as if one had said that it does not
 * know the service; or -errno: the host cannot be reached. Nothing happens to one that has heard of its peer meanwhile.
 */
void machine_absent(struct machine *m, uint32_t id, int err, uint64_t now) REQUIRES(m->lock);
/* The process is about to end: what peers wait for, and might miss, is said once more. Nobody will be there to say it
 * again when they ask. */
void machine_farewell(struct machine *m) REQUIRES(m->lock);
/* When machine_expire() wants to be called; NEVER if nothing is due. */
uint64_t machine_deadline(struct machine *m);

/* Which slot a message is for, if it carries a communication id; 0: it does not, `service` says for whom it
 * is; -1: it is no message for anybody. Knows no machine. */
int machine_owner(const uint8_t mad[CM_MAD_BYTES], uint64_t *service);

/* NULL: CONNECTION_LIMIT are alive or no memory. */
struct connection *connection_open(struct machine *m, const struct cm_address *address, void *user) REQUIRES(m->lock);
/* The user wants no more events. A connection that is alive ends as the protocol has it. */
void connection_release(struct connection *c, uint64_t now);

/* Each returns 0 or -EINVAL: the state does not allow it. `mad` says what the message tells; ids and
 * transaction are filled in here. */
int connection_request(struct connection *c, struct cm_mad *req, uint64_t now);	    /* from IDLE: REQ */
int connection_accept(struct connection *c, struct cm_mad *rep, uint64_t now);	    /* a REQ: REP */
int connection_reject(struct connection *c, struct cm_mad *rej, uint64_t now);	    /* a REQ or a REP: REJ */
int connection_ready(struct connection *c, struct cm_mad *rtu, uint64_t now);	    /* a REP: RTU */
int connection_established(struct connection *c);				    /* data came before the RTU */
int connection_disconnect(struct connection *c, struct cm_mad *dreq, uint64_t now); /* DREQ, or DREP to one */
int connection_lookup(struct connection *c, struct cm_mad *sidr_req, uint64_t now); /* from IDLE: SIDR_REQ */
int connection_answer(struct connection *c, struct cm_mad *sidr_rep, uint64_t now); /* a SIDR_REQ: SIDR_REP */

#endif
