/* SPDX-License-Identifier: BSD-2-Clause */
/* Causes of failed requests: found after the fact, told once per cause and put into completions. With qp->lock. */
#ifndef UROCE_ENGINE_CAUSE_H
#define UROCE_ENGINE_CAUSE_H

#include "base/cause.h"
#include "engine/checks.h"

/* Sets the cause for which the QP has failed. The first one counts. */
void cause_set(struct qp *qp, enum cause cause);
/* The name of a state, as in "RTS". */
const char *state_text(enum ibv_qp_state state);
/* Tells why a request could not be posted. */
void cause_post(const struct qp *qp, const struct ibv_send_wr *wr, int error);
/* Tells that this QP takes no receives; returns EINVAL. */
int cause_post_receive(const struct qp *qp);
/* Tells that the receive in progress cannot take a message. */
void cause_receive(struct qp *qp);
/* Tells that a message has to wait for a receive. */
void cause_starves(const struct qp *qp);
/* Sets the cause of a request that was refused with a verdict that fails the QP. */
void cause_refusal(struct qp *qp, const struct packet *p, enum verdict verdict);
/* Tells that a request counts as repeated, if the QP has taken none since RTR. */
void cause_repeated(const struct qp *qp, const struct packet *p);
/* Tells that a message of UC or UD is dropped, which the peer does not learn. */
void cause_drop(struct qp *qp, const struct packet *p, enum verdict verdict);
/* Sets the cause of a refused access of the peer by a key: of a READ that had begun. */
void cause_access(struct qp *qp, uint32_t rkey, uint64_t va, uint64_t length, unsigned access);
/* The cause of a failed request of this end, for its completion. */
enum cause cause_of_failure(struct qp *qp, const struct wqe *w, enum ibv_wc_status status);

#endif
