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

/* The path of a connected QP's packets. */
struct path {
	union ibv_gid sgid, dgid; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t sgid_index;
	bool severed;		       /* for loop/: the port of one of its ends is down: port/down.h */
	struct port *port;	       /* for loop/: the port to send through; the engine does not use it */
	struct local_peer *local_peer; /* for loop/: the peer process if it is on this host; NULL: send by the link */
};

/* Memory of the peer, [from, to), to which a WRITE has succeeded. `to` is 0 if there was none. */
struct proven {
	uint64_t from, to;
	uint32_t rkey;
};

/* Why a requester sends nothing for a while. */
enum pause {
	PAUSE_NONE,
	PAUSE_RNR,  /* after an RNR NAK */
	PAUSE_LATE, /* a rule of fault injection says so: requests are looked at late */
};

/* The requester of an RC connection: what has been sent and what has been acknowledged. PSNs: una <= next <= high;
 * [una, high) have been sent, [next, high) will be sent again (go-back-N). UC and UD use only the cursor: all before it
 * has been sent, and una == next == high. */
struct requester {
	/* used for each message: one cache line */
	psn_t una;	  /* the oldest PSN that is not acknowledged: packet `acked` of the WQE at sq.head */
	psn_t next;	  /* the next PSN to send: packet `packet` of the WQE at `wqe` */
	psn_t high;	  /* one past the highest ever sent */
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
			bool lossless; /* the link loses nothing: no probes, no window */
			bool changing; /* starts no new request: the link changes when all packets sent have arrived */
			uint8_t pause; /* enum pause: sends nothing until pause_until */
			bool probe_wanted; /* send the last packet again */
		};
		/* All of these, for requester_waits(). They are flags and no enum: the peer may be not ready, or a
		 * probe be due, while the link changes. */
		uint32_t phase;
	};
	bool peer_spoke;  /* a request has arrived since the last one was sent: the peer may be waiting for its reply */
	uint8_t rd_count; /* see rd_last */
	uint8_t retries, rnr_retries; /* left */
	bool gap_seen;		      /* has gone back for a gap, and no progress since */
	bool moved; /* progress since timeout_at was set, which does not move it: if set, the timer restarts when it
		       fires */
	bool plain; /* the peer cannot follow references: packets carry their payload */
	uint8_t refused; /* how often a request waited to be one-sided and then could not be; limited to HASTY_MOST */
	uint64_t timeout_at; /* the transport timer; NEVER: not running. If lossless: see `moved` */

	uint32_t hasty;	    /* requests before this position do not wait to be one-sided */
	uint32_t threshold; /* slow start below this window */
	psn_t recovery;	    /* `high` at the last loss: at most one reduction per window ... */
	bool recovering;    /* ... until una reaches it. Apart from gap_seen: progress ends that before */
	bool uncredited;    /* UC, UD: the receiver's credits do not count: UROCE_PATIENCE=off */
	uint64_t asked_at;  /* when the last packet with AckReq was sent */
	struct flow *held;  /* UC, UD: the receiver that the packet at the cursor waits for; NULL: none */
	struct proven proven;

	/* READs and atomics in flight: the last PSN of each request packet, oldest first; rd_count of them */
	psn_t rd_last[HCA_MAX_RD_ATOMIC];
	uint8_t rd_head;

	uint8_t timers; /* UROCE_TIMERS: engine/timers.c */
	uint8_t idle;	/* if lossless: periods of the transport timer without progress */
	uint64_t interval,
		first_interval; /* of the transport timer; of requests that have not timed out. NEVER: none */

	uint8_t probes;	     /* tail-loss probes since the last progress */
	uint32_t train;	     /* packets per GSO train: train_of(mtu) */
	uint64_t hole_until; /* until then, a gap in the responses is not a new loss */
	uint64_t pause_until;
	uint64_t probe_at; /* the tail-loss probe; NEVER: none */

	/* round-trip time, RFC 6298; 0: not measured */
	uint64_t srtt, rttvar;
	uint64_t rtt, least_rtt; /* the last one, the shortest one */
	psn_t timed;		 /* the packet whose round trip is measured */
	uint64_t timed_at;	 /* when it was sent; 0: no measurement */

	bool queued; /* packets wait on the way, by the last round trip */

	struct scoreboard *board; /* what the peer has received out of order: object/board.h; NULL: it has never told,
				     as if lossless */
	struct reassembly *reads; /* the same of responses: engine/reassembly.h; NULL: they are not kept */
	struct early *answers;	  /* responses that came before their turn; NULL: none waits */
	uint32_t absent; /* charge of what is neither acknowledged nor in the network: received out of order, or lost */
};

/* Not 0 if the requester waits, or has something to repeat. */
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
	psn_t psn; /* of the next response packet */
	uint32_t rkey;
	uint64_t va;	/* READ: next byte */
	uint32_t left;	/* READ: bytes to go */
	bool started;	/* READ: FIRST has been sent */
	bool again;	/* answers a duplicate request, which the peer can repeat */
	uint64_t value; /* ATOMIC: the value before the operation */
	uint32_t msn;
	uint32_t mtu;  /* READ: bytes per packet */
	uint32_t srqn; /* XRC READ: the SRQ of the request */
};

/* A READ, atomic or atomic write that was taken, kept to answer a duplicate of the request: IBTA 9.7.5.1.4, 9.7.5.1.5.
 */
struct answer_record {
	psn_t psn;
	uint32_t packets; /* PSNs that it takes; 0: there is no record here */
	bool is_read;	  /* READ or atomic write */
	uint32_t rkey, length, mtu;
	uint64_t va;
	uint64_t value;		/* atomic: what the memory held */
	struct kept_read *kept; /* READ: what the responses carried; NULL: not kept */
};

/* How urgent the next acknowledgement is: the highest level that any packet since the last ACK has requested. */
enum ack_state {
	ACK_NONE,
	ACK_OWED,   /* something has been received since the last ACK */
	ACK_ASKED,  /* AckReq in the last packet of a message */
	ACK_URGENT, /* AckReq in the middle of a message, or repeated */
};

/* The kind of the message that the responder is in. */
enum inbound {
	INBOUND_NONE,
	INBOUND_SEND,
	INBOUND_WRITE,
};

/* What the responder has refused since the last packet that it took: only the first of several is told. */
enum refused {
	REFUSED_NONE,
	REFUSED_GAP,   /* a packet before its turn, and nothing else since: what comes early may be kept */
	REFUSED_OTHER, /* the peer sends everything again */
};

struct responder {
	/* used for each message: one cache line */
	psn_t expected;
	uint32_t msn;
	enum inbound inbound;
	uint32_t response_count; /* see responses */
	uint32_t recv_position;
	psn_t ack_psn; /* PSN of the next ACK: the last SEND or WRITE packet, since responses acknowledge all others */
	uint32_t unacked; /* packets since the last ACK */
	union {
		struct {
			uint8_t nak; /* syndrome of the NAK or RNR NAK to send (0: none), see nak_psn */
			bool cnp_owed;
			bool sack_owed;	  /* tell the peer which packets wait for their turn: see object/early.h */
			bool repair_owed; /* answer again: see engine/kept.c */
		};
		uint32_t owes; /* any of these */
	};
	bool has_recv;
	uint8_t refused;     /* enum refused: not NONE, a NAK is sent or queued, and no other follows */
	uint8_t ack;	     /* enum ack_state: of the next acknowledgement */
	bool peer_is_uroce;  /* a packet with a source port of uroce's has come */
	bool starves;	     /* a message of a local peer found no receive, and none has been taken since */
	uint64_t look_at;    /* when to check again for a receive; 0: the local peer has its answer */
	struct early *early; /* packets that came before their turn: object/early.h; NULL: none waits */
	struct rwqe *recv;   /* copy of the receive that the message uses */

	uint64_t patient_until; /* when to send the RNR NAK; 0: not set yet */
	uint32_t received;	/* bytes of the message so far */
	uint64_t write_va;	/* WRITE: next byte */
	uint32_t write_rkey, write_left;
	psn_t nak_psn;
	struct grh_kept grh;   /* UD: GRH of a packet that came by the fast path */
	struct credit *credit; /* UC, UD: of the sender of the packet at hand; NULL: none */
	uint64_t cnp_at;       /* when the last CNP was sent */

	struct response *responses; /* ring of max_dest_rd_atomic, oldest first; response_count of them */
	uint32_t response_head, response_size;
	struct answer_record *answers; /* ring of max_dest_rd_atomic: as many as may be outstanding */
	uint32_t answer_next, answer_slots;

	struct repairs *repairs; /* engine/kept.c; NULL: what READs are answered is not kept */
	struct kept_read *spent; /* no longer of use; the tx batch may refer to them */
};

struct rss;

/* What port/ and progress/ know of a QP; qp_create() zeroes it, no other layer changes it. In a cache line that each
 * message uses. */
struct qp_loop {
	/* In hca->ready, or taken out by a thread that is going to run the QP. */
	bool is_ready;
	/* Its ACK is delayed: see loop->late. Relaxed: written under `lock`, else a hint. */
	_Atomic bool ack_is_delayed;
	/* UD: receives no copies of its own multicasts; raw: of those of this host. Constant. */
	bool no_multicast_loop;
	uint32_t tick;	   /* tick of its last send */
	uint64_t sent_to;  /* position in its local peer's ring after the last packet */
	uint64_t timer_at; /* its timer fires no later than this; 0: not set */
	uint64_t sent_at;  /* UC and UD: time of its last send, ns */
	struct port *raw;  /* the port of a raw packet QP. Constant */
};

/* What verbs/ knows of a QP; qp_create() zeroes it, no other layer looks at it. */
struct qp_verbs {
	struct builder *builder; /* state of ibv_wr_*(3); NULL: none */
	struct ibv_wq *wq;	 /* the WQ that the application has for this QP; else NULL. Constant */
	_Atomic uint32_t groups; /* number of multicast groups that it is attached to. Relaxed: a count */
	_Atomic uint32_t flows;	 /* number of steering rules that lead here: verbs/flow.c */
	uint32_t events;	 /* async events not yet acknowledged: verbs/async.c, under its lock */
	bool listens;		 /* a UD QP that is counted in its context's listeners */
};

/* How a request that is posted to an idle QP may be sent: see the post table in port/post.c. Set by engine_set_lane()
 * where the state, the link or the reach of memory changes. */
enum lane {
	LANE_QUEUE,    /* by the queue only */
	LANE_UDP,      /* RC by UDP */
	LANE_RING,     /* RC to a local peer by its ring */
	LANE_MEMORY,   /* LANE_RING, and the memory of the local peer can be reached */
	LANE_DATAGRAM, /* UD */
	LANES
};

struct qp {
	union { /* what the application has: first. base.state is the state that it was told last */
		struct ibv_qp base;
		struct ibv_qp_ex ex;
	};
	struct pd *holder; /* the PD that counts this QP and allocated its rings: `pd`, or a parent domain of it */
	uint64_t serial;   /* unique, unlike the QPN; from 1 */

	/* From here on, grouped by cache line, what each message uses: with thousands of connections every line is a
	 * cache miss. See qp_fetch(). */
	_Alignas(CACHE_LINE) struct lock lock;
	/* mutable */
	enum ibv_qp_state state;
	uint8_t lane;		/* enum lane */
	bool alive;		/* between create and destroy */
	bool cq_lost;		/* a completion found its CQ full: the QP is going to fail */
	bool comm_est : 1;	/* IBV_EVENT_COMM_EST was reported */
	bool needs_packets : 1; /* a rule may hit its packets, so none is replaced by an access: engine_set_lane() */
	uint8_t transport; /* enum transport: of the opcodes that it sends and accepts. Constant, as what follows */
	bool sig_all;
	struct hca *hca;
	struct pd *pd;		      /* for protection. NULL for an XRC target: the SRQ of each message has it */
	struct cq *send_cq, *recv_cq; /* NULL: an XRC QP has none for the side that it does not have */
	struct srq *srq; /* source of receives; NULL: rq, or for an XRC target the SRQ that each message names. The last
			    constant field */
	struct reach *reach; /* the memory of its peer, if it can be reached; else NULL */
	struct sq sq;
	struct path path; /* not for UD: each work request carries its own; see also `alternate` */
	_Alignas(CACHE_LINE) struct requester req;
	struct qp_loop loop;
	_Alignas(CACHE_LINE) struct rq rq; /* unused with an SRQ */
	struct list ready;		   /* in hca->ready: guarded by hca->ready_lock */
	struct timer timer;		   /* in hca->timers */
	_Alignas(CACHE_LINE) struct responder resp;
	struct xrc *xrc;	 /* for XRC; else NULL. Constant */
	struct ibv_qp_attr attr; /* as set by ibv_modify_qp(): what ibv_query_qp() returns */

	_Alignas(CACHE_LINE) struct reach_pair reach_pair;
	uint32_t mtu;	/* path MTU in bytes; for UD, the MTU of the port */
	uint32_t index; /* constant, as is ... */
	struct ibv_qp_cap cap;
	struct flow *flow;     /* UC: one, UD: UD_FLOWS; else NULL */
	struct credit *credit; /* UC: one, UD: UD_CREDITS; else NULL */
	bool sqd_notified;     /* SQ_DRAINED was reported for this SQD */
	uint8_t failed;	       /* enum ibv_event_type that moved it to ERR */
	uint16_t cause;	       /* enum cause of its first failure since RESET, for completions; 0: none */
	bool strays;	       /* before it acknowledged anything, the peer answered as one that expects `stray` next */
	psn_t stray;
	struct { /* what was posted since, when engine_backlog() was called last */
		uint32_t from, to, charge;
	} backlog;
	struct path alternate;	/* where it would migrate to; attr.alt_port_num 0: none */
	bool migration_refused; /* IBV_EVENT_PATH_MIG_ERR has been reported since it was armed */
	struct qp_verbs verbs;
	const struct rss *rss;	/* of a QP that only distributes to others by RSS; else NULL. Constant */
	bool answers_first;	/* the peer may see the next request of this end before the ACK of what this end has
				   received */
	uint32_t onesided_psns; /* for a capture: PSNs that its one-sided operations would have taken as packets */
	uint32_t trouble[HCA_COUNTERS];	     /* what has gone wrong, since it was created: qp_count() */
	uint32_t resent;		     /* packets that go_back() had sent again */
	uint64_t sent_bytes, received_bytes; /* of what completed with success while HOOK_COUNT was on */
	struct inject_qp
		*inject; /* what faults have counted here; NULL: nothing. Stays for the next QP of this place */
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

/* Prefetches what a message uses, all lines at once: otherwise the thread that takes the lock would miss one line after
 * the other. */
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

/* UD: the path of a work request's packet. A copy of the path of its address handle, at the end of the WQE. */
static inline struct path *wqe_path(const struct sq *sq, struct wqe *w)
{
	return (struct path *)((char *)w + sq->stride) - 1;
}

/* Under its lock: hca_count(), and for this QP. */
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

/* True while a migration of its path is being prepared, or may happen: then packets say so, and each operation is
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

/* The responder of a target of another process: port/target.h. */
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

/* The queue that its receives come from; for an XRC target, each message names it. */
static inline struct rq *qp_receives(struct qp *qp)
{
	return qp->srq ? &qp->srq->rq : &qp->rq;
}

/* Tells local peers whether, and how, they may access memory by this QP: memory/share.h. Call it when anything changes
 * that decides this. */
void qp_show(struct qp *qp); /* under its lock */

/* Withdraws all receives that senders to this QP have been granted. */
void qp_withdraw(struct qp *qp); /* under its lock */

/* Frees what the requester knows of packets, and keeps for their turn. */
void requester_free(struct requester *r);

/* Frees what the responder has allocated for the peer's requests. */
void responder_free(struct responder *r);

/* Afterwards nothing of the QP is left: no packet, no timer, no CQE. */
void qp_destroy(struct qp *qp) EXCLUDES(qp->lock);

#endif
