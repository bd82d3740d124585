/* SPDX-License-Identifier: BSD-2-Clause */
/* The protocol, without I/O. Posted work requests, parsed packets and the time go in; packets in a tx batch,
 * completions in CQs and one deadline come out. The engine reads no clock and never blocks. It makes no
 * system call, except to access memory that is paged on demand, or memory of a local peer that is not mapped here
 * (process_vm_readv(2)). It allocates in engine_modify(), for max_dest_rd_atomic, and where packets were lost between
 * two uroce (early.c, scoreboard.c). The caller holds qp->lock.
 *
 * engine_receive() and engine_expire() only change state; engine_run() is the one place where packets are made. A
 * caller does: [post | receive ... receive | expire], engine_run(), send what the tx batch holds, batch_done();
 * again while engine_run() returns true; then it sets the QP's timer to engine_deadline(). */
#ifndef UROCE_ENGINE_H

#define UROCE_ENGINE_H

#include "engine/engine.h"

#include <sys/uio.h>

#include "engine/tuned.h"
#include "engine/tx_batch.h"
#include "object/mr.h"
#include "object/qp.h"
#include "object/sge.h"
#include "wire/packet.h"

/* ibv_post_send: builds WQEs. 0, or a positive errno with *bad at the first request that was refused: EINVAL (wrong
 * state, opcode, SGE count, inline too long), ENOMEM (queue full). In ERR, requests are accepted and complete with
 * IBV_WC_WR_FLUSH_ERR at once. Nothing is sent before engine_run(). */
int engine_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) REQUIRES(qp->lock);
/* The send fast path is in fast_send.h: its rows belong to the post table of port/post.c. It changes the same state
 * as engine_post_send() and engine_run(), without a tx batch, for the most common requests on an idle QP. */

/* A row of the post table, for an idle QP in LANE_MEMORY: performs one-sided operations in the local peer's memory,
 * from the first request on, as long as each completes at once. Returns the remaining requests, and leaves nothing to
 * send. */
struct ibv_send_wr *engine_post_onesided(struct qp *qp, struct ibv_send_wr *wr) REQUIRES(qp->lock);
/* Writes bytes to the local peer's memory now: before the requests that are posted, and without a completion. False:
 * the memory cannot be reached, or only the slow path can tell the reason; at most bytes were written that a second try
 * writes again. `length`: bytes of all buffers. */
bool engine_place(struct qp *qp, const struct iovec *from, unsigned count, uint32_t length, uint64_t address,
		  uint32_t rkey) REQUIRES(qp->lock);
/* ibv_post_recv. 0, or a positive errno with *bad set. In ERR, the requests are flushed at once. */
int engine_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) REQUIRES(qp->lock);
/* The one entry for received packets: a packet for this QP with a good ICRC. `from`: the address in the IP header.
 * `poller`: a thread that polls a CQ and can take completions; NULL: none. Never sends; does not use the payload
 * after it returns. True: the fast path handled the packet, so engine_owes_ack_alone() says what is left to do.
 * `now`: ns. */
static inline bool engine_receive(struct qp *qp, const struct packet *p, const union ibv_gid *from, uint64_t now,
				  struct cq_poller *poller) REQUIRES(qp->lock);
/* The fast path alone, for a packet by a local peer's ring: it is of the peer and of the one partition, and needs no
 * time. False: it has done nothing that engine_receive() would not do as well: the caller reads the clock and calls
 * that. */
static inline bool engine_receive_fast(struct qp *qp, const struct packet *p, const union ibv_gid *from,
				       struct cq_poller *poller) REQUIRES(qp->lock);
/* Both of the above, called by them only: with the fast path twice, `make count` has a SEND that arrives 11% higher. */
#define UNTIMED 0
bool engine_receive_at(struct qp *qp, const struct packet *p, const union ibv_gid *from, uint64_t now,
		       struct cq_poller *poller) REQUIRES(qp->lock);
/* Handles a CREDIT_REQUEST: writes the credit grant, to be sent to `from`, to *answer. False: nothing to send. */
bool engine_grant_credit(struct qp *qp, const struct packet *credit_request, const union ibv_gid *from, uint64_t now,
			 struct packet *answer) REQUIRES(qp->lock);
/* Receives an Ethernet frame for a raw packet QP. `tag`: the steering rule's, for the completion. False: no receive is
 * posted. */
bool engine_receive_frame(struct qp *qp, const void *frame, uint32_t length, uint32_t tag) REQUIRES(qp->lock);
/* True if the QP accepts the packet, by state, partition, transport and peer (IBTA 9.6.1). */
bool engine_admits(const struct qp *qp, const struct packet *p, const union ibv_gid *from) REQUIRES(qp->lock);
/* The responder of an XRC target may move between processes (port/target.h). engine_resume(): continues at this
 * PSN. engine_rests(): true if every message received is done and answered. engine_ask_from(): asks the peer to
 * send again from a PSN. engine_fail_with(): fails. */
void engine_resume(struct qp *qp, psn_t psn, uint32_t msn) REQUIRES(qp->lock);
bool engine_rests(const struct qp *qp) REQUIRES(qp->lock);
void engine_ask_from(struct qp *qp, psn_t psn) REQUIRES(qp->lock);
void engine_fail_with(struct qp *qp, enum ibv_event_type event) REQUIRES(qp->lock);
/* Refuses a request, if it is the next one, with that NAK (or RNR NAK) and its consequences. */
void engine_refuse(struct qp *qp, const struct packet *p, uint8_t syndrome, uint64_t now) REQUIRES(qp->lock);
/* Stores the last bytes of a WRITE, SEND or READ response of RC before the packet is taken. False: the packet will not
 * be taken, or is too short. */
bool engine_place_last(struct qp *qp, const struct packet *p) REQUIRES(qp->lock);
/* Sets the lane again, after rules of fault injection have changed. */
void engine_renew_lane(struct qp *qp) REQUIRES(qp->lock);
/* Path migration, while HOOK_MIGRATION is on: engine/migration.c. engine_heed_path(): handles MigReq of a packet that
 * has arrived, from `from` at the address `to` (NULL: by the ring of the peer). False: the packet must be dropped. For
 * a delegate (port/target.h) always true: the owner has checked. engine_mark(): sets MigReq of packets to be sent. */
bool engine_heed_path(struct qp *qp, const struct packet *p, const union ibv_gid *from, const uint8_t *to, uint64_t now)
	REQUIRES(qp->lock);
void engine_mark(const struct qp *qp, struct tx_batch *batch) REQUIRES(qp->lock);
/* Handles each deadline that has passed by `now`. */
void engine_expire(struct qp *qp, uint64_t now) REQUIRES(qp->lock);
/* Makes the packets that may be sent now, until the tx batch is full. True: there is more to make, so run again. */
bool engine_run(struct qp *qp, struct tx_batch *batch) REQUIRES(qp->lock);
/* Takes back a packet of the last run whose payload cannot be read, as the memory has been unmapped. The tx batch is
 * not done yet, and no later packet with a payload was sent. Run again. */
void engine_unreadable(struct qp *qp, const struct tx *tx) REQUIRES(qp->lock);
/* True if engine_run() has anything to do; `delay_ack`: as in the tx batch. */
bool engine_has_work(const struct qp *qp, bool delay_ack) REQUIRES(qp->lock);
/* True if packets are in flight. */
bool engine_in_flight(const struct qp *qp) REQUIRES(qp->lock);
/* RC: true if an answer to a packet in flight will come and run the QP. A post may then wait for more posts to make a
 * train. */
bool engine_awaits_answer(const struct qp *qp) REQUIRES(qp->lock);
/* Charge (bytes and overhead) of posted requests that have not been started, counted up to `enough`. */
uint32_t engine_backlog(struct qp *qp, uint32_t enough) REQUIRES(qp->lock);
/* The time at which to call engine_expire(); NEVER if nothing is due. */
uint64_t engine_deadline(const struct qp *qp) REQUIRES(qp->lock);
/* ibv_modify_qp: checks states and masks (IBTA 11.2.5.2, ibv_modify_qp(3)), sets the attributes, starts, stops and
 * flushes. 0 or -errno (EINVAL: a transition, mask or value that the tables refuse; ENOMEM). The caller has
 * resolved the address vectors into qp->path and qp->alternate (before the call, if IBV_QP_AV or IBV_QP_ALT_PATH is in
 * mask) and limited the path MTU to the port's. */
int engine_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask, uint64_t now) REQUIRES(qp->lock);
/* All attributes of the QP: ibv_query_qp(3). */
void engine_query(const struct qp *qp, struct ibv_qp_attr *attr) REQUIRES(qp->lock);
/* Changes the link for requests: to one that carries `mtu` bytes in a packet and loses nothing; or with mtu 0, to the
 * network. No new request is started until everything in flight has been acknowledged. True: the link has changed.
 * False: call again before the next engine_run(). */
bool engine_change_link(struct qp *qp, uint32_t mtu) REQUIRES(qp->lock);
/* Sends everything again as if for the first time, by the link that engine_change_link() sets next: the present link
 * has delivered nothing since the QP changed to it. */
void engine_start_over(struct qp *qp) REQUIRES(qp->lock);
/* The pair of the QP and its peer, as the peer publishes it (memory/reach.h) if it has the same addresses and
 * numbers. */
struct reach_pair engine_pair(const struct qp *qp) REQUIRES(qp->lock);
/* Sets the access to the peer's memory; NULL: none any more. From RTR until RESET. */
void engine_reach(struct qp *qp, struct reach *reach) REQUIRES(qp->lock);
/* Restarts the transport timer if it is due, as the peer has not read yet what was sent. `now`: ns. */
void engine_postpone(struct qp *qp, uint64_t now) REQUIRES(qp->lock);
/* True if something is in flight to a peer that has given no cause for doubt yet. */
bool engine_expects_success(const struct qp *qp) REQUIRES(qp->lock);
/* Moves the QP to the error state: flushes all outstanding requests, in order. */
void engine_fail(struct qp *qp) REQUIRES(qp->lock);
/* Receives a message that the connected peer has delivered (engine/deliver.h). False: the QP is to be run. */
bool engine_receive_delivered(struct qp *qp, const struct packet *p, struct cq_poller *poller) REQUIRES(qp->lock);
/* After hca_ops.qp_settles(), and before the QP moves to RESET or ERR: every message that a local peer has delivered
 * was received. */
void engine_settled(struct qp *qp) REQUIRES(qp->lock);

static inline bool engine_receive(struct qp *qp, const struct packet *p, const union ibv_gid *from, uint64_t now,
				  struct cq_poller *poller)
{
	return engine_receive_at(qp, p, from, now, poller);
}

static inline bool engine_receive_fast(struct qp *qp, const struct packet *p, const union ibv_gid *from,
				       struct cq_poller *poller)
{
	return engine_receive_at(qp, p, from, UNTIMED, poller);
}

#endif
