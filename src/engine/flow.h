/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow control of UC and UD. These services acknowledge nothing: an adapter relies on a network that holds back a
 * sender that is too fast (PFC), and on receivers that are always fast enough. Here both ends are processes that
 * wait for a processor, with a socket buffer between them: a sender without flow control would fill that within a
 * millisecond.
 *
 * So a sender that is well ahead of what it knows to have arrived sends a credit request after its packets (an
 * opcode of the range that the specification leaves to manufacturers). The receiver finds it after all packets
 * before it, and answers with a credit grant: the number of receives for this sender. Not among them are those
 * granted to others (with UD or an SRQ), and those that an SRQ's other QPs may use before they ask. Until the grant
 * comes, a sender may be one window of bytes ahead, and as many messages as the last grant allowed. A peer that
 * does not know the credit request drops it, like any opcode of another transport; no sender waits long for such a
 * peer, nor for a dead one. Short exchanges send no credit request.
 *
 * With UROCE_PATIENCE=off only the window of bytes is left, as PFC: a message that finds no receive is lost. With
 * qp->lock. */
#ifndef UROCE_ENGINE_FLOW_H
#define UROCE_ENGINE_FLOW_H

#include "engine/request.h"
#include "object/flow.h"

/* The flow of the request at the cursor. */
struct flow *flow_of(struct qp *qp, struct wqe *w);
/* True if the packet at the cursor has to wait for its receiver. */
bool flow_holds(struct qp *qp, struct tx_batch *batch, struct flow *f, struct wqe *w);
/* Reserves room for the packet at the cursor, or a credit request. False: the tx batch is full. */
bool flow_reserve(struct qp *qp, struct tx_batch *batch, struct flow *f, uint32_t length);
/* True if a packet without room is lost, as the receiver has been waited for long enough. */
bool flow_loses(struct qp *qp, struct tx_batch *batch, struct flow *f);
/* Gives back reserved room. */
void flow_release(const struct tx_batch *batch, const struct flow *f, uint32_t length);
/* Notes that the packet at the cursor is in the tx batch. */
void flow_sent(struct qp *qp, struct tx_batch *batch, struct flow *f, struct wqe *w, uint32_t bytes);

/* Counts sent bytes; `message`: a message that takes a receive ends with them. */
static inline void flow_count(struct flow *f, uint32_t bytes, bool message, uint64_t now)
{
	f->sent.bytes += bytes + PACKET_OVERHEAD;
	f->sent.messages += message;
	f->used = now ?: 1;
}

/* Takes an OPCODE_CREDIT_GRANT. */
void flow_granted(struct qp *qp, const struct packet *p, const union ibv_gid *from);
/* Time in ns at which a waiting packet may be sent, or given up; NEVER: none waits. */
uint64_t flow_deadline(const struct qp *qp);
/* Forgets all grants, in RESET. */
void flow_reset(struct qp *qp);
/* Credits granted to this sender; NULL: none. */
struct credit *flow_credit(struct qp *qp, uint32_t qpn, const union ibv_gid *to);
/* Keeps credits of an SRQ for a sender that may begin without a grant, in RTR. */
void flow_expect(struct qp *qp);

#endif
