/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of a queue pair, its attributes, and bringing two ends together. */
#ifndef CONFORM_STATES_H
#define CONFORM_STATES_H

#include "end.h"

/* Attributes of a transition; required is -1 where there is no such transition. */
struct masks {
	int required, optional;
};
struct masks transition(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to);

const char *state_name(enum ibv_qp_state state); /* lower case */
const char *type_name(enum ibv_qp_type type);	 /* lower case */
const char *attribute_name(int bit);		 /* of enum ibv_qp_attr_mask */
const char *status_name(enum ibv_wc_status status);
#define ATTRIBUTES 21 /* without RATE_LIMIT */

/* Valid values of all attributes, of a queue pair that is connected with the other. */
struct ibv_qp_attr attributes(struct qp *qp, const struct qp *peer);
/* The address of a far end, as one near end uses it. */
struct ibv_ah_attr address_of(const struct end *from, const struct end *to);

/* A queue pair with some room in its queues; lacking() if the device has no such type. */
struct qp make_qp(struct end *end, enum ibv_qp_type type);
struct qp make_qp_as(struct end *end, const struct ibv_qp_init_attr *init);
struct ibv_qp_init_attr small_qp(const struct end *end, enum ibv_qp_type type);
/* Brings it from `from` to `to`, each step with the attributes that it requires. */
void bring(struct qp *qp, const struct qp *peer, enum ibv_qp_state from, enum ibv_qp_state to);

struct pair {
	struct qp a, b; /* near, far */
};
/* Connected, both in RTS. */
struct pair make_pair(enum ibv_qp_type type);
void connect_pair(struct pair *pair);

struct ibv_sge near_at(uint32_t offset, uint32_t length); /* of the arena */
/* Posts a request of RC from the near arena to the far one; a SEND has no `there`. An atomic adds 1, or swaps 0 for
 * wr_id. lacking() if it is refused. */
void post_op(struct pair *p, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t here, uint32_t there, uint32_t length,
	     unsigned flags);
/* lacking() if the device has no atomics. */
void need_atomics(void);

/* Waits for a completion and checks it; ends the check if there is none. */
struct ibv_wc completion(struct end *end, struct ibv_cq *cq);
struct ibv_wc expect_status(struct end *end, struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);

#endif
