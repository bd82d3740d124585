/* SPDX-License-Identifier: BSD-2-Clause */
/* The protocol, without I/O: posted work requests, parsed packets and the time go in; packets in a tx batch,
 * completions in CQs and one deadline come out. Nothing here makes a system call (but for access to memory that is
 * paged on demand), reads a clock (but for how long a copy takes: pace.h), blocks or allocates. The caller holds
 * qp->lock.
 *
 * engine_receive() and engine_expire() only change state; engine_run() is the one place where packets are
 * made. So a caller does: [post | receive ... receive | expire], run, send what the tx batch holds, batch_done(),
 * and again while run returns true; then sets the QP's timer to engine_deadline(). */
#ifndef UROCE_ENGINE_H
#define UROCE_ENGINE_H

#include <sys/uio.h>

#include "memory/pace.h"
#include "object/mr.h"
#include "object/qp.h"
#include "object/sge.h"
#include "wire/packet.h"

enum {
	BATCH_PACKETS = 128,
	BATCH_TRAINS = 64, /* of these, if they are not small: in whole trains, none of which a link has to cut */
	BATCH_IOVECS = 256,
	BATCH_REGIONS = 128,
	BATCH_LARGEST = 65536, /* bytes: no link carries more in one packet */
	BATCH_BOUNCE = 4 * BATCH_LARGEST,
	BATCH_OVERHEAD = 200,
	BATCH_SPARE = 4096, /* of the room, for acknowledgements alone */
};

/* UD has no peer, so each receiver is looked up: the rings of local peers, as far as the engine needs to know them. */
struct near_ops {
	/* The local peer that has this QP; NULL: none, or not yet. */
	void *(*find)(struct qp *qp, const struct path *path, uint32_t qpn, uint64_t now);
	/* Room for a datagram of that many bytes, which tx->near then takes up. */
	enum near_room {
		NEAR_ROOM,
		NEAR_FULL, /* the QP is run when there is some, if it waits */
		NEAR_GONE,
	} (*reserve)(struct qp *qp, void *near, uint32_t length, bool waits);
	void (*release)(void *near, uint32_t length);
	/* Whether it has not taken in yet all that it was sent, and is to: not if it has been stopped. */
	bool (*is_behind)(void *near);
};

/* A packet to be sent: header values, and its payload as pieces of the tx batch's iov[]. */
struct tx {
	struct packet packet;
	const struct path *path;
	void *near;	    /* UD: the local peer in whose ring there is room for it; NULL: it goes by the path */
	uint32_t iov, iovs; /* first piece, number of pieces; they add up to packet.length */
	uint32_t position;  /* of a request: in the send queue */
};

/* What one engine_run() hands back. The memory that iov[] points to stays valid until batch_done() and no
 * longer than qp->lock is held: it is the application's memory or the WQE. */
struct tx_batch {
	uint64_t now;		     /* in: ns */
	bool delay_ack;		     /* in: an ACK that nothing urges may wait for a later run */
	uint32_t budget;	     /* in: limit of a QP's congestion window, in bytes */
	uint32_t room;		     /* in: bytes that the link takes now: payload, and TURN_OVERHEAD for each packet */
	const struct near_ops *near; /* in: of UD; NULL: there are no local peers */
	bool full; /* out: that was not enough: engine_run() is false, and wants to be called when there is more */
	uint32_t packets; /* out: number of tx[] */
	uint32_t iovs, regions;
	struct tx tx[BATCH_PACKETS];
	struct iovec iov[BATCH_IOVECS];
	struct mr *region[BATCH_REGIONS]; /* kept alive by mr_get() until batch_done() */
	uint32_t bounced;		  /* bytes of bounce[]: copies of what mr_is_indirect() */
	char bounce[BATCH_BOUNCE];
};

/* Drops the hold on the regions and empties the tx batch. `now`, `delay_ack` and `budget` stay. */
void batch_done(struct tx_batch *batch);

/* ibv_post_send: builds WQEs. 0, or a positive errno with *bad at the first request that was not taken:
 * EINVAL (wrong state, opcode, SGE count, inline too long), ENOMEM (queue full). In ERR the requests are
 * taken and complete with IBV_WC_WR_FLUSH_ERR at once. Nothing is sent before engine_run(). */
int engine_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) REQUIRES(qp->lock);

/* Does one-sided operations in a local peer's memory, as many from the first on as can be done there and then; returns
 * the rest, for engine_post_send(). Nothing is to be sent afterwards that was not before. */
struct ibv_send_wr *engine_post_onesided(struct qp *qp, struct ibv_send_wr *wr) REQUIRES(qp->lock);

/* the fast path, between local peers, on a connection of RC that has nothing else to do: of a SEND of one packet, small
 * or one that says where its payload lies, and of a small WRITE with immediate; and of small datagrams. It changes the
 * same state as what is said above and below, without a tx batch and all that may be in one; whatever is not so plain
 * takes the usual way. None calls anything back. */
enum {
	STRAIGHT_MOST = 2048, /* bytes of payload: of longer ones, copying is what takes time */
};
/* Posting: straight.h. */
/* As engine_receive() of a packet of RC from the QP's own peer: of an ACK, a SEND or a WRITE with immediate that
 * carries its whole message, or of a SEND that says where that lies, in one piece (with `mtu`); and of a datagram.
 * `poller`: a thread that polls, to which completions may be given; NULL: none. False: it is for engine_receive(). */
bool engine_receive_straight(struct qp *qp, const struct packet *p, const union ibv_gid *from, struct cq_poller *poller)
	REQUIRES(qp->lock);
/* the fast path to the network, of a small SEND on a connection of RC that has nothing else to do. */
enum {
	SHORT_LEAST = 4, /* bytes of payload: then the ACK is no longer than the packet before it, and ends its train */
	SHORT_MOST = 512, /* of longer ones a link had better not have copies */
};
bool engine_post_is_short(const struct qp *qp, const struct ibv_send_wr *wr) REQUIRES(qp->lock);
/* Such a one: posts it, and makes its packet, and that of an ACK if one is due. They have to be sent at once, as one
 * train; the payload of the first is copied to `payload`. `budget`: as of a tx batch. Returns how many; 0: nothing has
 * been posted, as its memory is not to be had this way. */
uint32_t engine_post_short(struct qp *qp, const struct ibv_send_wr *wr, uint64_t now, uint32_t budget, char *payload,
			   struct packet packet[2]) REQUIRES(qp->lock);
/* As engine_receive_straight(), of a packet from the network, of whoever it is. Of datagrams: false. */
bool engine_receive_short(struct qp *qp, const struct packet *p, const union ibv_gid *from, uint64_t now,
			  struct cq_poller *poller) REQUIRES(qp->lock);
/* Whether there is nothing to send after that but an ACK, if one is owed, and that may wait for a request to travel
 * with. */
#define ACK_PROMPT 32 /* packets, after which an ACK that was asked for does not wait to travel with an answer */
static inline bool engine_owes_ack_alone(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct requester *r = &qp->req;
	const struct responder *s = &qp->resp;

	return r->wqe == qp->sq.tail && !r->probe_wanted && !r->changing && !s->response_count && !s->nak &&
	       !s->cnp_owed && s->unacked < ACK_PROMPT;
}

/* Stores bytes in the local peer's memory now: ahead of what is posted, and with no completion. False: it cannot be
 * reached, or only the usual way knows why not; nothing that matters has been written. `length`: of all the buffers. */
bool engine_place(struct qp *qp, const struct iovec *from, unsigned count, uint32_t length, uint64_t address,
		  uint32_t rkey, struct pace *pace) REQUIRES(qp->lock);

/* ibv_post_recv. 0, or a positive errno with *bad set. A QP in ERR flushes at once. */
int engine_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) REQUIRES(qp->lock);

/* A packet that arrived for this QP, its ICRC found good; `from` is the address that the IP header names.
 * Never sends; the payload is not used after return. */
void engine_receive(struct qp *qp, const struct packet *p, const union ibv_gid *from, uint64_t now) REQUIRES(qp->lock);

/* A CREDIT_REQUEST that arrived: what to answer, to `from`. False: nothing. */
bool engine_grant_credit(struct qp *qp, const struct packet *credit_request, const union ibv_gid *from, uint64_t now,
			 struct packet *answer) REQUIRES(qp->lock);

/* An Ethernet frame for a raw packet QP; `tag` is the steering rule's, for the completion. False: no receive is posted.
 */
bool engine_receive_frame(struct qp *qp, const void *frame, uint32_t length, uint32_t tag) REQUIRES(qp->lock);

/* Whether a packet is for this QP at all, by state, partition, transport and peer (IBTA 9.6.1). */
bool engine_admits(const struct qp *qp, const struct packet *p, const union ibv_gid *from) REQUIRES(qp->lock);

/* The responder of an XRC target may move from process to process (loop/target.h). It goes on at this PSN; whether all
 * that it has taken is done with and answered; asks the peer to send again from a PSN; fails. */
void engine_resume(struct qp *qp, psn_t psn, uint32_t msn) REQUIRES(qp->lock);
bool engine_rests(const struct qp *qp) REQUIRES(qp->lock);
void engine_ask_from(struct qp *qp, psn_t psn) REQUIRES(qp->lock);
void engine_fail_with(struct qp *qp, enum ibv_event_type event) REQUIRES(qp->lock);

/* The time has come: handles whatever deadline has passed by `now`. */
void engine_expire(struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* Makes packets for all that may be sent now, until the tx batch is full. True: there is more to make, run again.
 */
bool engine_run(struct qp *qp, struct tx_batch *batch) REQUIRES(qp->lock);

/* A packet of the last run, its tx batch not done yet, could not be sent, since its payload cannot be read: the memory
 * has been unmapped. No later ones with a payload have been sent either. Run again. */
void engine_unreadable(struct qp *qp, const struct tx *tx) REQUIRES(qp->lock);

/* Whether engine_run() would have anything to do at all; `delay_ack` as in the tx batch. */
bool engine_has_work(const struct qp *qp, bool delay_ack) REQUIRES(qp->lock);

/* Whether there are packets on the way. */
bool engine_in_flight(const struct qp *qp) REQUIRES(qp->lock);

/* RC: whether an answer to one of them is bound to come and to call for attention: a post may then wait for more posts
 * to make a train. */
bool engine_awaits_answer(const struct qp *qp) REQUIRES(qp->lock);

/* Charge (bytes and overhead) of what was posted and not yet picked up, up to `enough`. */
uint32_t engine_backlog(struct qp *qp, uint32_t enough) REQUIRES(qp->lock);

/* When engine_expire() wants to be called; NEVER if nothing is due. */
uint64_t engine_deadline(const struct qp *qp) REQUIRES(qp->lock);

/* ibv_modify_qp: checks states and masks (IBTA 11.2.5.2, ibv_modify_qp(3)), takes the attributes over,
 * starts, stops and flushes. 0 or -errno (EINVAL: transition, mask or value that the tables refuse; ENOMEM).
 * The caller has resolved the address vector into qp->path (when IBV_QP_AV is in mask, before calling) and
 * limited the path MTU to the port's. */
int engine_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask, uint64_t now) REQUIRES(qp->lock);

/* Requests go over another link from now on: one that carries `mtu` bytes in a packet and loses nothing; or, mtu 0,
 * over the network. Until what is on the way has been acknowledged nothing new is picked up. True: it is done; else
 * call again, before the next engine_run(). */
bool engine_change_link(struct qp *qp, uint32_t mtu) REQUIRES(qp->lock);

/* The peer's memory can be reached by this; NULL: not any more. From RTR on, until RESET. */
void engine_reach(struct qp *qp, struct reach *reach) REQUIRES(qp->lock);

/* The transport timer starts again: what was sent has not even been looked at. */
void engine_postpone(struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* Whether something is on its way to a peer that has given no cause for doubt yet. */
bool engine_expects_success(const struct qp *qp) REQUIRES(qp->lock);

/* To the error state: everything outstanding is flushed, in order. */
void engine_fail(struct qp *qp) REQUIRES(qp->lock);

#endif
