/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair. verbs/qp.c creates and destroys it; it lives in hca->qps. `lock` guards every field below "mutable";
 * the caller of the engine holds it for one packet, one timer or one post. */
#ifndef UROCE_QP_H
#define UROCE_QP_H

#include <endian.h>
#include <infiniband/verbs.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/psn.h"
#include "base/timer.h"
#include "object/cq.h"
#include "object/flow.h"
#include "object/hca.h"
#include "object/pd.h"
#include "object/queue.h"
#include "object/srq.h"
#include "object/xrc.h"
#include "memory/reach.h"
#include "wire/grh.h"
#include "wire/packet.h"

/* Path of a connected QP's packets. */
struct path {
	union ibv_gid sgid, dgid; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t sgid_index;
	bool severed;		       /* for port/: the port of one end is down: port/down.h */
	struct port *port;	       /* for port/: port to send through; the engine does not use it */
	struct local_peer *local_peer; /* for port/: peer process, if it is on this host; NULL: send by the link */
};

/* Memory of the peer, [from, to), to which a WRITE has succeeded. `to` is 0 if there was none. */
struct proven {
	uint64_t from, to;
	uint32_t rkey;
};

/* Reasons for which a requester sends nothing for a while. */
enum pause {
	PAUSE_NONE,
	PAUSE_RNR,  /* after an RNR NAK */
	PAUSE_LATE, /* by a rule of fault injection: requests are delayed */
};

/* The requester of an RC connection: what has been sent and what has been acknowledged. PSNs: una <= next <= high;
 * [una, high) have been sent, [next, high) will be sent again (go-back-N). UC and UD use only the cursor: all before it
 * has been sent, and una == next == high. */
struct requester {
	/* used for each message: one cache line */
	psn_t una;	  /* oldest PSN that is not acknowledged: packet `acked` of the WQE at sq.head */
	psn_t next;	  /* next PSN to send: packet `packet` of the WQE at `wqe` */
	psn_t high;	  /* one past the highest PSN ever sent */
	uint32_t acked;	  /* packets of the WQE at sq.head that are acknowledged */
	uint32_t wqe;	  /* cursor: position in the SQ */
	uint32_t packet;  /* cursor: packet within that WQE */
	uint32_t flight;  /* charge, in bytes, of [una, next): see wqe_charge() */
	uint32_t window;  /* congestion window, in bytes */
	uint32_t unasked; /* charge sent since the last packet with AckReq */
	psn_t asked;	  /* one past the last packet that the peer must answer */
	uint32_t mtu;	  /* bytes per packet: the path MTU, or the MTU of the link */
	union {
		struct {
			bool lossless; /* lossless link: no probes, no window */
			bool changing; /* no new request is started: the link changes when all packets sent have arrived
					*/
			uint8_t pause; /* enum pause: sends nothing until pause_until */
			bool probe_wanted; /* the last packet is to be sent again */
		};
		/* All of these, for requester_waits(). Flags and no enum: the peer may be not ready, or a probe due,
		 * while the link changes. */
		uint32_t phase;
	};
	bool peer_spoke;  /* a request has arrived since the last one was sent: the peer may be waiting for its reply */
	uint8_t rd_count; /* number of READs and atomics in flight: rd_last */
	uint8_t retries, rnr_retries; /* retries left */
	bool gap_seen;		      /* went back for a gap, without progress since */
	bool moved;		      /* progress since timeout_at was set: the timer restarts when it fires */
	bool plain;		      /* the peer cannot follow references: packets carry their payload */
	uint8_t refused;	      /* consecutive requests that waited in vain to be one-sided, up to HASTY_MOST */
	uint64_t timeout_at;	      /* ns: transport timer; NEVER: not running. If lossless: see `moved` */

	uint32_t hasty;	    /* position before which requests do not wait to be one-sided */
	uint32_t threshold; /* window below which slow start applies */
	psn_t recovery;	    /* `high` at the last loss */
	bool recovering; /* una has not reached `recovery`: at most one reduction per window. Independent of gap_seen */
	bool uncredited; /* UC, UD: credits are not used: UROCE_PATIENCE=off */
	uint64_t asked_at; /* ns: time of the last packet with AckReq */
	struct flow *held; /* UC, UD: receiver that the packet at the cursor waits for; NULL: none */
	struct proven proven;

	/* The last PSN of each READ and atomic in flight, oldest first; rd_count of them. */
	psn_t rd_last[HCA_MAX_RD_ATOMIC];
	uint8_t rd_head;

	uint8_t timers; /* value of UROCE_TIMERS: engine/timers.c */
	uint8_t idle;	/* lossless: periods of the transport timer without progress */
	uint64_t interval,
		first_interval; /* ns of the transport timer; of requests that have not timed out; NEVER: none */

	uint8_t probes;	     /* tail-loss probes since the last progress */
	uint32_t train;	     /* packets per GSO train: train_of(mtu) */
	uint64_t hole_until; /* ns: time until which a gap in the responses is not a new loss */
	uint64_t pause_until;
	uint64_t probe_at; /* ns: tail-loss probe; NEVER: none */

	/* Round-trip times in ns, RFC 6298; 0: not measured. */
	uint64_t srtt, rttvar;
	uint64_t rtt, least_rtt; /* last and shortest round trip */
	psn_t timed;		 /* packet whose round trip is measured */
	uint64_t timed_at;	 /* ns: time when it was sent; 0: no measurement */

	bool queued; /* packets wait on the way, as the last round trip shows */

	struct scoreboard *board; /* board of the requests: object/board.h; NULL: never told, or lossless */
	struct reassembly *reads; /* board of the responses: engine/reassembly.c; NULL: not kept */
	struct early *answers;	  /* responses before their turn; NULL: none waits */
	uint32_t absent; /* charge of bytes neither acknowledged nor in the network: received out of order, or lost */
};

/* Not 0 if the requester waits, or must repeat something. */
static inline uint32_t requester_waits(const struct requester *r)
{
	return le32toh(r->phase) & ~0xffu; /* ignores `lossless` */
}

enum response_kind {
	RESPOND_READ,
	RESPOND_ATOMIC,
};

/* A queued response; responses are sent in PSN order. */
struct response {
	enum response_kind kind;
	psn_t psn; /* PSN of the next response packet */
	uint32_t rkey;
	uint64_t va;	/* READ: address of the next byte */
	uint32_t left;	/* READ: bytes to go */
	bool started;	/* READ: the first packet has been sent */
	bool again;	/* answers a duplicate request, which the peer can repeat */
	uint64_t value; /* ATOMIC: the value before the operation */
	uint32_t msn;
	uint32_t mtu;  /* READ: bytes per packet */
	uint32_t srqn; /* XRC READ: the SRQ of the request */
};

/* A READ, atomic or atomic write that was taken, kept to answer a duplicate of the request: IBTA 9.7.5.1.4,
 * 9.7.5.1.5. */
struct answer_record {
	psn_t psn;
	uint32_t packets; /* PSNs of the request; 0: no record */
	bool is_read;	  /* READ or atomic write */
	uint32_t rkey, length, mtu;
	uint64_t va;
	uint64_t value;		/* atomic: old value of the memory */
	struct kept_read *kept; /* READ: data of the responses; NULL: not kept */
};

/* Urgency of the next acknowledgement: the highest that any packet since the last ACK has requested. */
enum ack_state {
	ACK_NONE,
	ACK_OWED,   /* packets received since the last ACK */
	ACK_ASKED,  /* AckReq in the last packet of a message */
	ACK_URGENT, /* AckReq in the middle of a message, or repeated */
};

/* The kind of the message that the responder is in. */
enum inbound {
	INBOUND_NONE,
	INBOUND_SEND,
	INBOUND_WRITE,
};

/* Refusals of the responder since the last packet that it took: only the first of several is told. */
enum refused {
	REFUSED_NONE,
	REFUSED_GAP,   /* a packet before its turn, and nothing else since: early packets may be kept */
	REFUSED_OTHER, /* another: the peer sends everything again */
};

struct responder {
	/* used for each message: one cache line */
	psn_t expected;
	uint32_t msn;
	enum inbound inbound;
	uint32_t response_count; /* number of `responses` */
	uint32_t recv_position;
	psn_t ack_psn; /* PSN of the next ACK: the last SEND or WRITE packet, since responses acknowledge all others */
	uint32_t unacked; /* packets since the last ACK */
	union {
		struct {
			uint8_t nak; /* syndrome of the NAK or RNR NAK to send (0: none), see nak_psn */
			bool cnp_owed;
			bool sack_owed;	  /* a selective acknowledgement is owed: object/early.h */
			bool repair_owed; /* answers are owed again: engine/kept.c */
		};
		uint32_t owes; /* any of these is owed */
	};
	bool has_recv;
	uint8_t refused;     /* enum refused. Not NONE: a NAK is sent or queued, and no other follows */
	uint8_t ack;	     /* enum ack_state of the next acknowledgement */
	bool peer_is_uroce;  /* a packet with a source port of uroce has come */
	bool starves;	     /* a message of a local peer found no receive, and none has been taken since */
	uint64_t look_at;    /* ns: time of the next check for a receive; 0: the local peer has its answer */
	struct early *early; /* packets before their turn: object/early.h; NULL: none waits */
	struct rwqe *recv;   /* copy of the receive that the message uses */

	uint64_t patient_until; /* ns: time to send the RNR NAK; 0: not set yet */
	uint32_t received;	/* bytes of the message so far */
	uint64_t write_va;	/* WRITE: address of the next byte */
	uint32_t write_rkey, write_left;
	psn_t nak_psn;
	struct grh_kept grh;   /* UD: GRH of a packet that came by the fast path */
	struct credit *credit; /* UC, UD: credit of the current packet's sender; NULL: none */
	uint64_t cnp_at;       /* ns: time of the last CNP */

	struct response *responses; /* ring of max_dest_rd_atomic, oldest first; response_count are used */
	uint32_t response_head, response_size;
	struct answer_record *answers; /* ring of max_dest_rd_atomic records */
	uint32_t answer_next, answer_slots;

	bool told_newest;	 /* see early_tell() */
	struct repairs *repairs; /* answers to repeat: engine/kept.c; NULL: data of READs are not kept */
	struct kept_read *spent; /* data no longer needed, which the tx batch may refer to */
};

struct rss;

/* The fields of a QP that belong to port/ and progress/; qp_create() zeroes them, no other layer changes them. In a
 * cache line that each message uses. */
struct qp_loop {
	/* The QP is in hca->ready, or was taken out by a thread that is going to run it. */
	bool is_ready;
	/* UD: no copies of its own multicasts are received; raw: none of this host. Constant. */
	bool no_multicast_loop;
	uint32_t tick;	   /* tick of the last send */
	uint64_t sent_to;  /* position in its local peer's ring after the last packet */
	uint64_t timer_at; /* ns: time by which the timer fires; 0: not set */
	uint64_t sent_at;  /* ns: time of the last send of UC and UD */
	struct port *raw;  /* port of a raw packet QP. Constant */
};

/* The fields of a QP that belong to verbs/; qp_create() zeroes them, no other layer reads them. */
struct qp_verbs {
	struct builder *builder; /* state of ibv_wr_*(3); NULL: none */
	struct ibv_wq *wq;	 /* WQ of the application for this QP; else NULL. Constant */
	_Atomic uint32_t groups; /* number of multicast groups it is in. Relaxed: a count */
	_Atomic uint32_t flows;	 /* number of steering rules that lead here: verbs/flow.c */
	uint32_t events;	 /* async events not yet acknowledged: verbs/async.c, under its lock */
	bool listens;		 /* UD: counted in its context's listeners */
};

/* Ways of a request that is posted to an idle QP: the post table in port/post.c. Set by engine_set_lane() where the
 * state, the link or the reach of memory changes. */
enum lane {
	LANE_QUEUE,    /* by the queue only */
	LANE_UDP,      /* RC by UDP */
	LANE_RING,     /* RC to a local peer by its ring */
	LANE_MEMORY,   /* LANE_RING, and the memory of the local peer can be reached */
	LANE_DATAGRAM, /* UD */
	LANES
};

struct qp {
	union { /* the application's object: first. base.state is the state last told */
		struct ibv_qp base;
		struct ibv_qp_ex ex;
	};
	struct pd *holder; /* PD that counts this QP and allocated its rings: `pd`, or a parent domain of it */
	uint64_t serial;   /* serial number, unique unlike the QPN; from 1 */

	/* Fields that each message uses, grouped by cache line: with thousands of connections every line is a cache
	 * miss. See qp_fetch(). */
	_Alignas(CACHE_LINE) struct lock lock;
	/* mutable */
	enum ibv_qp_state state;
	uint8_t lane;		/* enum lane */
	bool alive;		/* true between create and destroy */
	bool cq_lost;		/* a completion found its CQ full: the QP is going to fail */
	bool comm_est : 1;	/* IBV_EVENT_COMM_EST was reported */
	bool needs_packets : 1; /* a rule may hit its packets, so no access replaces one: engine_set_lane() */
	bool asks_first : 1;	/* UC: no message goes without a grant, as over Thunderbolt. Constant */
	uint8_t transport;	/* enum transport of its opcodes. Constant, as all up to `srq` */
	bool sig_all;
	struct hca *hca;
	struct pd *pd;		      /* domain that protects. NULL for an XRC target: the SRQ of each message has it */
	struct cq *send_cq, *recv_cq; /* CQs; an XRC QP has none for the side that it lacks */
	struct srq *srq;	      /* source of receives; NULL: rq, or of an XRC message its own */
	struct reach *reach;	      /* memory of the peer, if it can be reached; else NULL */
	struct sq sq;
	struct path path; /* path; not for UD, where each work request has its own; see also `alternate` */
	_Alignas(CACHE_LINE) struct requester req;
	struct qp_loop loop;
	_Alignas(CACHE_LINE) struct rq rq; /* unused with an SRQ */
	struct list ready;		   /* link in hca->ready. Guarded by hca->ready_lock */
	struct list settles;		   /* link in hca->settling. Guarded by hca->ready_lock */
	struct timer timer;		   /* timer in hca->timers */
	_Alignas(CACHE_LINE) struct responder resp;
	struct xrc *xrc;	 /* part of XRC; else NULL. Constant */
	struct ibv_qp_attr attr; /* attributes set by ibv_modify_qp(), for ibv_query_qp() */

	_Alignas(CACHE_LINE) struct reach_pair reach_pair;
	uint32_t mtu;	/* path MTU in bytes; for UD, the MTU of the port */
	uint32_t index; /* index in hca->qps. Constant */
	struct ibv_qp_cap cap;
	struct flow *flow;     /* flows: UC one, UD UD_FLOWS; else NULL */
	struct credit *credit; /* credits: UC one, UD UD_CREDITS; else NULL */
	bool sqd_notified;     /* SQ_DRAINED was reported for this SQD */
	uint8_t failed;	       /* enum ibv_event_type that moved the QP to ERR */
	uint16_t cause;	       /* enum cause of the first failure since RESET, for completions; 0: none */
	bool strays;	       /* the peer acknowledged nothing, but answered as one that expects `stray` next */
	psn_t stray;
	struct { /* range at the last engine_backlog(), and its charge */
		uint32_t from, to, charge;
	} backlog;
	struct path alternate;	/* path to migrate to; attr.alt_port_num 0: none */
	bool migration_refused; /* IBV_EVENT_PATH_MIG_ERR has been reported since the path was armed */
	struct qp_verbs verbs;
	const struct rss *rss;	/* hash parameters of a QP that only distributes to others; else NULL. Constant */
	bool answers_first;	/* requests may reach the peer before the ACK of packets received earlier */
	uint32_t onesided_psns; /* PSNs that one-sided operations would have taken as packets, for a capture */
	uint32_t trouble[HCA_COUNTERS];	     /* counts of trouble since creation: qp_count() */
	uint32_t resent;		     /* packets sent again by go_back() */
	uint64_t sent_bytes, received_bytes; /* bytes of successes while HOOK_COUNT was on */
	struct inject_qp *inject;	     /* counts of fault injection; NULL: none. Kept for the next QP here */
};

#ifndef UROCE_LOCK_RANKS
static_assert(offsetof(struct qp, lock) % CACHE_LINE == 0 && offsetof(struct qp, sq) % CACHE_LINE == 0 &&
		      offsetof(struct qp, path) % CACHE_LINE == 0 && offsetof(struct qp, req) % CACHE_LINE == 0 &&
		      offsetof(struct qp, loop) / CACHE_LINE == offsetof(struct qp, req.absent) / CACHE_LINE &&
		      (offsetof(struct qp, loop.sent_at) - 1) / CACHE_LINE == offsetof(struct qp, loop) / CACHE_LINE &&
		      offsetof(struct qp, rq) % CACHE_LINE == 0 && offsetof(struct qp, resp) % CACHE_LINE == 0 &&
		      offsetof(struct requester, timeout_at) < CACHE_LINE &&
		      offsetof(struct responder, recv) < CACHE_LINE && offsetof(struct rq, reclaimed) < CACHE_LINE,
	      "cache lines of what each message looks at");
#endif

/* Prefetches all lines that a message uses at once: otherwise the thread that takes the lock would miss one after the
 * other. */
static inline void qp_fetch(const struct qp *qp)
{
	__builtin_prefetch(&qp->lock, 1);
	__builtin_prefetch(&qp->sq, 1);
	__builtin_prefetch(&qp->path);
	__builtin_prefetch(&qp->req, 1);
	__builtin_prefetch(&qp->loop, 1);
	__builtin_prefetch(&qp->rq, 1);
	__builtin_prefetch(&qp->resp, 1);
	__builtin_prefetch(&qp->attr.dest_qp_num);
	__builtin_prefetch(&qp->attr.retry_cnt);
}

/* The QP with this number, locked; NULL if there is none. The caller calls lock_take_over(&qp->lock), and later drops
 * the lock. */
static inline NO_LOCK_ANALYSIS struct qp *hca_find_qp(struct hca *hca, uint32_t qpn)
{
	struct qp *qp = pool_at_random(&hca->qps, qpn & 0xffff);

	if (unlikely(!qp))
		return NULL;
	qp_fetch(qp);
	lock_take(&qp->lock);
	if (likely(qp->alive && qp->base.qp_num == qpn))
		return qp;
	lock_drop(&qp->lock);
	return NULL;
}

/* For who does not hold the lock: a helper may move the QP to ERR meanwhile. */
static inline enum ibv_qp_state qp_state_now(struct qp *qp) EXCLUDES(qp->lock)
{
	enum ibv_qp_state state;

	lock_take(&qp->lock);
	state = qp->state;
	lock_drop(&qp->lock);
	return state;
}

/* UD: the path of a work request's packet. A copy of the path of its address handle, at the end of the WQE. */
static inline struct path *wqe_path(const struct sq *sq, struct wqe *w)
{
	return (struct path *)((char *)w + sq->stride) - 1;
}

/* Counts for the adapter and this QP. Under its lock. */
static inline void qp_count(struct qp *qp, enum hca_counter what)
{
	qp->trouble[what]++;
	hca_count(what);
}

/* True if packets are acknowledged, retransmitted and answered. */
static inline bool is_reliable(const struct qp *qp)
{
	return qp->transport != TRANSPORT_UC && qp->transport != TRANSPORT_UD && qp->transport != TRANSPORT_RAW;
}

/* True while a migration of the path is being prepared, or may happen: then packets carry MigReq, and each operation is
 * packets. */
static inline bool qp_is_guarded(const struct qp *qp)
{
	return qp->attr.path_mig_state != IBV_MIG_MIGRATED;
}

/* True in a state in which packets for the QP are processed: IBTA 9.6.1. In SQE the receive queue works. */
static inline bool qp_is_receiving(const struct qp *qp)
{
	return qp->state >= IBV_QPS_RTR && qp->state <= IBV_QPS_SQE;
}

/* True for the responder of a target of another process: port/target.h. */
static inline bool is_delegate(const struct qp *qp)
{
	return unlikely(qp->xrc) && qp->xrc->is_delegate;
}

static inline bool is_xrc_target(const struct qp *qp)
{
	return qp->base.qp_type == IBV_QPT_XRC_RECV;
}

/* The SRQ that the XRC packet at hand names; NULL if not XRC. */
static inline struct srq *xrc_srq(const struct qp *qp)
{
	return unlikely(qp->xrc) ? qp->xrc->srq : NULL;
}

/* Creates a QP in RESET with queues of the given capacity. The caller has checked `cap` against the limits of the HCA,
 * and fills in base.* of the application afterwards. `srq` may be NULL; for XRC, so may all that it does not use. NULL
 * and errno ENOMEM. */
struct qp *qp_create(struct hca *hca, struct pd *pd, struct cq *send_cq, struct cq *recv_cq, struct srq *srq,
		     enum ibv_qp_type type, const struct ibv_qp_cap *cap, bool sig_all);

/* The queue that receives come from; for an XRC target, each message names it. */
static inline struct rq *qp_receives(struct qp *qp)
{
	return qp->srq ? &qp->srq->rq : &qp->rq;
}

/* Tells local peers whether, and how, they may access memory by this QP: memory/share.h. Call it when anything changes
 * that decides this. */
void qp_show(struct qp *qp); /* under qp->lock */

/* Withdraws all receives that senders to this QP have been granted. */
void qp_withdraw(struct qp *qp); /* under qp->lock */

/* Frees the requester's boards and kept packets. */
void requester_free(struct requester *r);

/* Frees the responder's memory for the peer's requests. */
void responder_free(struct responder *r);

/* Destroys a QP: no packet, no timer and no CQE of it is left. */
void qp_destroy(struct qp *qp) EXCLUDES(qp->lock);

#endif
