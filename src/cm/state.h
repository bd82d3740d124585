/* SPDX-License-Identifier: BSD-2-Clause */
/* State of the protocol machine (machine.h): its connections, and its user's operations. Guarded by machine->lock,
 * which is held when the operations are called.
 *
 * A connection belongs to its user from connection_open(), or from the ops->request() that accepted it, until
 * connection_release(). The machine keeps it as long as its peer may send messages for it. */
#ifndef UROCE_CM_STATE_H
#define UROCE_CM_STATE_H

#include <string.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/pool.h"
#include "base/siphash.h"
#include "base/timer.h"
#include "cm/sources.h"
#include "cm/tuned.h"
#include "wire/cm_mad.h"

enum connection_state {
	CM_FREE,
	CM_IDLE,
	CM_REQ_SENT,
	CM_REQ_HELD, /* no listener yet */
	CM_REQ_RECEIVED,
	CM_REP_SENT,
	CM_REP_RECEIVED,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RECEIVED,
	CM_REJ_SENT, /* stored for repetition */
	CM_TIMEWAIT,
	CM_SIDR_REQ_SENT,
	CM_SIDR_REQ_HELD,
	CM_SIDR_REQ_RECEIVED,
	CM_SIDR_REP_SENT, /* stored for repetition */
	CM_STATES
};

enum cm_event {
	CM_EVENT_REPLIED,      /* REP received; the user calls connection_ready() or connection_reject() */
	CM_EVENT_ESTABLISHED,  /* RTU received, or a message that implies it was sent */
	CM_EVENT_REJECTED,     /* REJ received; status: enum cm_reason */
	CM_EVENT_UNREACHABLE,  /* no answer to a REQ, REP or SIDR_REQ; status: -ETIMEDOUT */
	CM_EVENT_DISCONNECTED, /* DREQ or DREP received. `mad` NULL, status -ETIMEDOUT: no DREP was received */
	CM_EVENT_TIMEWAIT_EXIT,
	CM_EVENT_FOUND, /* SIDR_REP received; status: enum cm_sidr_status */
};

/* Source and destination of messages. */
struct cm_address {
	union ibv_gid local, remote; /* IPv4 as ::ffff:a.b.c.d */
	uint8_t traffic_class;
};

struct machine;
struct connection;

struct machine_ops {
	void (*send)(struct machine *m, const struct cm_address *to, const uint8_t mad[CM_MAD_BYTES]);
	/* `mad` is NULL if no message caused the event. The handler must not call the machine. */
	void (*event)(void *user, enum cm_event event, int status, const struct cm_mad *mad);
	/* A REQ or SIDR_REQ was received. Returns 0: accepted, and *user is the argument of later events; positive:
	 * refused, enum cm_reason or enum cm_sidr_status; negative: no decision now, the peer will repeat the request.
	 */
	int (*request)(struct connection *c, const struct cm_mad *mad, void **user);
	/* Called when the peer's id, c->remote_id, is known. Returns true if machine_bury() will be called at the
	 * end of the peer's process. Must not call the machine. May be NULL. */
	bool (*met)(const struct connection *c);
	/* Passes what the peer gets if the process ends in the connection's present state; NULL: nothing. May be
	 * NULL. */
	void (*last_words)(const struct connection *c, const uint8_t *mad);
	/* Called when a REQ or SIDR_REQ is repeated. A handler that finds the reason calls machine_absent(), but not
	 * from here. May be NULL. */
	void (*unanswered)(const struct connection *c);
	/* Called when the machine's deadline gets earlier. */
	void (*deadline)(struct machine *m, uint64_t when);
};

/* Lists of connections started by peers, by the reason to keep them. */
enum cm_age {
	CM_AGE_NONE,
	CM_AGE_HALF_OPEN,
	CM_AGE_ANSWERED, /* kept to answer repeated requests */
	CM_AGES
};

struct machine {
	const struct machine_ops *ops;
	struct lock lock;
	uint16_t slot;				 /* top bits of all communication ids */
	struct siphash_key key;			 /* for unpredictable ids and transaction IDs */
	uint64_t transactions GUARDED_BY(&lock); /* number of transaction IDs drawn */
	uint32_t alive; /* number of connections; guarded by `lock`, which connection_close() cannot name */
	struct pool connections;
	struct timers timers;
	struct list by_remote[CM_BUCKETS] GUARDED_BY(
		&lock); /* connections whose remote id is known, by that id and the peer's address */
	struct list by_qpn[CM_BUCKETS] GUARDED_BY(
		&lock); /* connections whose remote QPN is known, by that QPN and the peer's address */
	struct {
		struct list oldest;
		uint32_t count;
	} aging[CM_AGES];
	uint32_t unproven; /* number of half-open connections of unproven addresses */
	struct sources sources;
};

struct connection {
	struct machine *machine;
	uint32_t index;
	uint32_t id, remote_id; /* 0: unknown */
	uint8_t uses;		/* use count of this slot of the pool, which makes each id of the slot different */
	enum connection_state state;
	void *user; /* NULL: released */
	struct cm_address address;
	uint32_t local_qpn, remote_qpn;
	uint64_t remote_guid; /* GUID of the peer's adapter; 0: unknown */
	uint64_t challenge;   /* transaction of the DREQ that asks if the peer is still connected; 0: not asked */
	uint64_t transaction;
	uint64_t request; /* passive side: transaction of the REQ or SIDR_REQ */
	uint8_t about;	  /* message that our REJ refers to: enum cm_about */
	uint64_t timeout; /* ns: response timeout of the peer */
	uint8_t retries;  /* repetitions left */
	bool is_passive;  /* the peer sent the REQ or SIDR_REQ */
	bool is_watched;  /* the peer is a process of this host whose end is detected (machine_ops.met) */
	bool is_proven;	  /* the peer's address is proven */
	uint32_t credit;  /* messages that may be sent before the address is proven */
	enum cm_age age;
	bool delayed;	   /* an MRA was sent: the peer will not repeat soon, so a REJ is repeated */
	uint64_t interval; /* ns: time between the next two repetitions */
	uint64_t give_up;  /* ns: last time for a repetition */
	uint64_t deadline; /* ns, NEVER: none */
	struct timer timer;
	struct list remote, qpn;       /* links in by_remote, by_qpn */
	struct list aging;	       /* link in machine->aging[age] */
	uint8_t message[CM_MAD_BYTES]; /* message to repeat; in REQ_HELD and SIDR_REQ_HELD the message received */
};

static inline bool machine_gid_equal(const union ibv_gid *a, const union ibv_gid *b)
{
	return !memcmp(a, b, sizeof(*a));
}

#endif
