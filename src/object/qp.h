/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair. verbs/qp.c makes and destroys it; it lives in hca->qps. `lock` guards every field below
 * "mutable"; whoever calls the engine holds it for one packet, one timer or one post. */
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

/* Where a connected QP's packets go and come from. */
struct path {
	union ibv_gid sgid, dgid; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t sgid_index;
	struct port *port;	       /* for loop/: what to send through; the engine does not look at it */
	struct local_peer *local_peer; /* for loop/: the process, if it is on this host; NULL: by link */
};

/* Memory of the peer that a WRITE has reached: [from, to). `to` is 0 if there was none. */
struct proven {
	uint64_t from, to;
	uint32_t rkey;
};

/* The requester's side of an RC connection: what has been sent and what is known to have arrived.
 * PSNs: una <= next <= high; [una, high) have been sent, [next, high) will be sent again (go-back-N).
 * UC and UD use the cursor alone: what is behind it has been sent, and una == next == high. */
struct requester {
	/* what each message looks at: one cache line */
	psn_t una;	  /* the oldest PSN that is not acknowledged: packet `acked` of the WQE at sq.head */
	psn_t next;	  /* the next PSN to send: packet `packet` of the WQE at `wqe` */
	psn_t high;	  /* one past the highest ever sent */
	uint32_t acked;	  /* packets of the WQE at sq.head that are acknowledged */
	uint32_t wqe;	  /* cursor: position in the SQ */
	uint32_t packet;  /* cursor: packet within that WQE */
	uint32_t flight;  /* charge, in bytes, of [una, next): see wqe_charge() */
	uint32_t window;  /* congestion window, in bytes */
	uint32_t unasked; /* charge sent since the last packet with AckReq ... */
	psn_t asked;	  /* one past the last packet that an answer is bound to come for */
	uint32_t mtu;	  /* bytes per packet: the path MTU, or what the link carries ... */
	union {
		struct {
			bool lossless; /* ... which then loses nothing: no probes, no window */
			bool changing; /* picks up nothing new: the link changes when all that is on the way has arrived
					*/
			bool rnr_wait; /* told "receiver not ready": silent until rnr_until */
			bool probe_wanted; /* send the last packet again */
		};
		uint32_t phase; /* all of these: requester_is_open() */
	};
	bool peer_spoke;	      /* a request has come since we sent one: the peer may be waiting for its reply */
	uint8_t rd_count;	      /* see rd_last */
	uint8_t retries, rnr_retries; /* left */
	bool gap_seen;		      /* went back for a hole already, and nothing has come of it yet */
	bool moved; /* timeout_at stays when something is acknowledged: it begins again when it fires, if this says so
		     */
	bool plain; /* the peer cannot follow references: payload goes with its packets */
	uint8_t refused;     /* so often have requests that waited turned out not to be possible from here; no more than
				matters */
	uint64_t timeout_at; /* the transport timer; NEVER: it does not run. Where nothing is lost: see `moved` */

	uint32_t hasty;	    /* requests up to this position do not wait until they can be executed from here */
	uint32_t threshold; /* slow start up to here */
	psn_t recovery;	    /* high at the last loss: one reduction per window ... */
	bool recovering;    /* ... until una gets there */
	bool full;	    /* what `held` has to wait for is room on the way */
	uint64_t asked_at;  /* when the last packet with AckReq was sent */
	struct flow *held;  /* UC, UD: the packet at the cursor waits for this receiver; NULL: it does not */
	struct proven proven;

	/* READs and atomics on the way: the last PSN of each request packet, oldest first; rd_count of them */
	psn_t rd_last[HCA_MAX_RD_ATOMIC];
	uint8_t rd_head;

	uint8_t probes;	     /* tail-loss probes since the last progress */
	uint32_t train;	     /* packets that travel together: train_of(mtu) */
	uint64_t hole_until; /* responses that come too early tell nothing new until then */
	uint64_t rnr_until;
	uint64_t probe_at; /* the tail-loss probe; NEVER when not wanted */

	/* round-trip time, RFC 6298; 0: not measured yet */
	uint64_t srtt, rttvar;
	psn_t timed;	   /* the packet that is being timed */
	uint64_t timed_at; /* when it was sent; 0: none is */
};

/* It neither waits for something nor has something to repeat. */
static inline bool requester_is_open(const struct requester *r)
{
	return !(le32toh(r->phase) & ~0xffu); /* whatever `lossless` is */
}

enum response_kind {
	RESPOND_READ,
	RESPOND_ATOMIC,
};

/* A response that waits for its tx batch to be sent, in PSN order. */
struct response {
	enum response_kind kind;
	psn_t psn; /* of the next response packet */
	uint32_t rkey;
	uint64_t va;	/* READ: next byte */
	uint32_t left;	/* READ: bytes to go */
	bool started;	/* READ: FIRST has been sent */
	bool again;	/* READ, ATOMIC: to a duplicate request, which can be asked for once more */
	uint64_t value; /* ATOMIC: what the memory held */
	uint32_t msn;
	uint32_t mtu;  /* READ: bytes per packet */
	uint32_t srqn; /* XRC READ: whose memory it is about */
};

/* A READ, atomic or atomic write that was taken, kept to answer a duplicate of the request: IBTA 9.7.5.1.4, 9.7.5.1.5.
 */
struct answer_record {
	psn_t psn;
	uint32_t packets; /* PSNs that it takes; 0: there is no record here */
	bool is_read;	  /* READ or atomic write */
	uint32_t rkey, length, mtu;
	uint64_t va;
	uint64_t value; /* atomic: what the memory held */
};

/* How urgently an acknowledgement is owed; the most urgent of what has come counts. */
enum ack_state {
	ACK_NONE,
	ACK_OWED,   /* something has been received since the last ACK */
	ACK_ASKED,  /* the peer asks for it (AckReq) at the end of a message */
	ACK_URGENT, /* the peer asks for it in the middle of a message, or for the second time */
};

/* Which kind of message the responder is in the middle of. */
enum inbound {
	INBOUND_NONE,
	INBOUND_SEND,
	INBOUND_WRITE,
};

struct responder {
	/* what each message looks at: one cache line */
	psn_t expected;
	uint32_t msn;
	enum inbound inbound;
	uint32_t response_count; /* see responses */
	uint32_t recv_position;
	psn_t ack_psn;	  /* what an ACK will say: the last SEND or WRITE packet, as responses acknowledge the rest */
	uint32_t unacked; /* packets since the last ACK */
	union {
		struct {
			uint8_t nak; /* syndrome of a NAK or RNR NAK to send (0: none), see nak_psn */
			bool cnp_owed;
		};
		uint16_t owes; /* either of these */
	};
	bool has_recv;
	bool nak_sent;		/* a NAK is out, or will be: silent until the expected packet comes */
	uint8_t ack;		/* enum ack_state: that of the acknowledgement which is owed */
	bool starves;		/* a local peer's message found no receive, and none has been taken since ... */
	uint64_t look_at;	/* ... when to look whether there is one now; 0: the local peer has been told ... */
	uint64_t patient_until; /* ... when to tell it that there is none; 0: not known yet */
	struct rwqe *recv;	/* a copy of the receive that the message uses */

	uint32_t received; /* bytes of the message so far */
	uint64_t write_va; /* WRITE: next byte */
	uint32_t write_rkey, write_left;
	psn_t nak_psn;
	struct grh_kept grh;   /* UD: of what came the fast path */
	struct credit *credit; /* UC, UD: to whoever sent the packet at hand; NULL: none */
	uint64_t cnp_at;       /* when the last CNP went out */

	struct response *responses; /* ring of max_dest_rd_atomic, oldest first; response_count of them */
	uint32_t response_head, response_size;
	struct answer_record *answers; /* ring of max_dest_rd_atomic: as many as may be outstanding */
	uint32_t answer_next;
};

struct rss;

/* How requests may leave that are posted to an idle QP: see the post table in loop/post.c. Set by engine_set_lane(),
 * where the state, the link or what can be reached changes. */
enum lane {
	LANE_QUEUE,    /* by the queue alone */
	LANE_UDP,      /* RC over the network */
	LANE_RING,     /* RC to a local peer, by its ring */
	LANE_MEMORY,   /* the same, and its memory can be reached */
	LANE_DATAGRAM, /* UD */
	LANES
};

struct qp {
	union { /* what the application holds: first. base.state is what it was told last */
		struct ibv_qp base;
		struct ibv_qp_ex ex;
	};
	struct pd *holder; /* that counts it, and gave it its memory: pd, or a parent domain of it */
	uint64_t serial;   /* never used again, other than the QPN. From 1 */

	/* From here on, by cache lines, what each message looks at: where there are thousands of connections, every
	 * line of theirs is a miss. See qp_fetch(). */
	_Alignas(CACHE_LINE) struct lock lock;
	/* mutable */
	enum ibv_qp_state state;
	uint8_t lane;		     /* enum lane */
	bool alive;		     /* between create and destroy */
	bool cq_lost;		     /* a completion found its CQ full: the QP is about to fail */
	bool is_ready;		     /* for loop/: it is there, or somebody who took it out is about to run the QP */
	_Atomic bool ack_is_delayed; /* for loop/: an ACK of its waits, see loop->late. Relaxed: written under `lock`,
					else a hint */
	bool comm_est : 1;	     /* IBV_EVENT_COMM_EST was reported */
	bool is_delegate : 1; /* for loop/: the responder of another process's target. Constant, as what follows ... */
	uint8_t transport;    /* enum transport: that of the opcodes it sends and takes */
	bool sig_all;
	struct hca *hca;
	struct pd *pd;		      /* that protects. NULL of an XRC target: the SRQ of each message says */
	struct cq *send_cq, *recv_cq; /* NULL: XRC has none for what a QP does not do */
	struct srq *srq; /* where receives come from; NULL: from rq, or (XRC target) as each message says. The last of
			    these */
	struct reach *reach; /* its peer's memory, where that can be reached from here; NULL: not */
	struct sq sq;
	struct path path; /* UD has none: each work request carries its own */
	uint64_t sent_to; /* for loop/: where in its local peer's ring the last packet ends */
	struct requester req;
	uint64_t timer_at;  /* for loop/: its timer is set, and fires no later. 0: not */
	struct rq rq;	    /* unused with an SRQ */
	struct list ready;  /* in hca->ready: guarded by hca->ready_lock */
	struct timer timer; /* in hca->timers */
	_Alignas(CACHE_LINE) struct responder resp;
	struct xrc *xrc;	 /* of XRC; else NULL. Constant */
	struct ibv_qp_attr attr; /* as modified: what ibv_query_qp() returns */

	_Alignas(CACHE_LINE) struct reach_pair reach_pair;
	uint32_t mtu;	/* path MTU in bytes; of UD, the port's */
	uint32_t index; /* constant, as is ... */
	struct ibv_qp_cap cap;
	struct flow *flow;     /* UC: one, UD: UD_FLOWS; NULL: of others */
	struct credit *credit; /* UC: one, UD: UD_PROMISES; NULL: of others */
	bool sqd_notified;     /* SQ_DRAINED was reported for this SQD */
	uint8_t failed;	       /* enum ibv_event_type that took it to ERR */
	uint32_t tick;	       /* for loop/: when it last sent */
	uint64_t sent_at;      /* for loop/: UC and UD: ns, when it last sent */
	struct {	       /* what was posted in between, when engine_backlog() last looked */
		uint32_t from, to, charge;
	} backlog;
	struct builder *builder; /* for verbs/: of ibv_wr_*(3), NULL: none */
	_Atomic uint32_t groups; /* for verbs/: multicast groups that it is attached to. Relaxed: a count */
	struct port *raw;	 /* of a raw packet QP, for loop/: what it sends through. Constant */
	const struct rss *rss;	 /* of one that only chooses among others; else NULL. Constant */
	bool no_multicast_loop;	 /* UD: gets no copies of its own multicasts; raw: of this host's. Constant */
	bool answers_first;	 /* the peer may see what this end does next before the ACK of what it has received */
	_Atomic uint32_t flows;	 /* steering rules that lead here: verbs/flow.c */
	struct ibv_wq *wq;	 /* for verbs/: what the application knows it as; else NULL. Constant */
	bool listens;		 /* for verbs/: a UD QP that counts in its context's listeners */
	uint32_t events;	 /* async events not yet acknowledged: verbs/async.c, under its lock */
};

static_assert(offsetof(struct qp, lock) % CACHE_LINE == 0 && offsetof(struct qp, sq) % CACHE_LINE == 0 &&
		      offsetof(struct qp, path) % CACHE_LINE == 0 && offsetof(struct qp, req) % CACHE_LINE == 0 &&
		      offsetof(struct qp, rq) % CACHE_LINE == 0 && offsetof(struct qp, resp) % CACHE_LINE == 0 &&
		      offsetof(struct requester, timeout_at) < CACHE_LINE &&
		      offsetof(struct responder, recv) < CACHE_LINE && offsetof(struct rq, reclaimed) < CACHE_LINE,
	      "cache lines of what each message looks at");

/* Has what a message looks at brought here, all at once: from the lock on, whoever takes it would wait for one line
 * after the other. */
static inline void qp_fetch(const struct qp *qp)
{
	__builtin_prefetch(&qp->lock, 1);
	__builtin_prefetch(&qp->sq, 1);
	__builtin_prefetch(&qp->path);
	__builtin_prefetch(&qp->req, 1);
	__builtin_prefetch(&qp->rq, 1);
	__builtin_prefetch(&qp->resp, 1);
	__builtin_prefetch(&qp->attr.dest_qp_num);
	__builtin_prefetch(&qp->attr.retry_cnt);
}

/* UD: where a work request's packet goes. A copy of its address handle's path, at the end of the WQE. */
static inline struct path *wqe_path(const struct sq *sq, struct wqe *w)
{
	return (struct path *)((char *)w + sq->stride) - 1;
}

/* Whether packets are acknowledged, sent again, and answered. */
static inline bool is_reliable(const struct qp *qp)
{
	return qp->transport != TRANSPORT_UC && qp->transport != TRANSPORT_UD && qp->transport != TRANSPORT_RAW;
}

/* Whether packets for it are looked at: IBTA 9.6.1. In SQE the receive queue goes on. */
static inline bool qp_is_receiving(const struct qp *qp)
{
	return qp->state >= IBV_QPS_RTR && qp->state <= IBV_QPS_SQE;
}

static inline bool is_xrc_target(const struct qp *qp)
{
	return qp->base.qp_type == IBV_QPT_XRC_RECV;
}

/* The SRQ that the XRC packet at hand names; else NULL. */
static inline struct srq *xrc_srq(const struct qp *qp)
{
	return unlikely(qp->xrc) ? qp->xrc->srq : NULL;
}

/* A QP in RESET with queues of the given capacity (already checked against the HCA's limits and with base.* of
 * the application's attributes filled in by the caller afterwards). `srq` may be NULL; of XRC, so may what it has no
 * use for. NULL and errno ENOMEM. */
struct qp *qp_create(struct hca *hca, struct pd *pd, struct cq *send_cq, struct cq *recv_cq, struct srq *srq,
		     enum ibv_qp_type type, const struct ibv_qp_cap *cap, bool sig_all);

/* Where its receives come from; of XRC, each message says. */
static inline struct rq *qp_receives(struct qp *qp)
{
	return qp->srq ? &qp->srq->rq : &qp->rq;
}

/* Nobody is granted receives any more, of those that send to this QP. */
void qp_withdraw(struct qp *qp); /* under its lock */

/* Nothing of the QP is found afterwards: no packet, no timer, no CQE. */
void qp_destroy(struct qp *qp) EXCLUDES(qp->lock);

#endif
