/* SPDX-License-Identifier: BSD-2-Clause */
/* Why requests failed, found out after the fact, told once per cause and put into completions. With qp->lock. */
#ifndef UROCE_ENGINE_CAUSE_H
#define UROCE_ENGINE_CAUSE_H

#include "base/cause.h"
#include "engine/checks.h"

/* The QP has failed for this cause. The first one counts. */
void cause_set(struct qp *qp, enum cause cause);
/* The name of a state, as in "RTS". */
const char *state_text(enum ibv_qp_state state);
/* A request could not be posted. */
void cause_post(const struct qp *qp, const struct ibv_send_wr *wr, int error);
/* This QP takes no receives; returns EINVAL. */
int cause_post_receive(const struct qp *qp);
/* The receive in progress cannot take what came. */
void cause_receive(struct qp *qp);
/* A message has to wait for a receive. */
void cause_starves(const struct qp *qp);
/* A request was refused with a verdict that fails the QP. */
void cause_refusal(struct qp *qp, const struct packet *p, enum verdict verdict);
/* A message of UC or UD is dropped without a word to the peer, so only a message tells of it. */
void cause_drop(struct qp *qp, const struct packet *p, enum verdict verdict);
/* An access of the peer was refused: a READ that had begun, by its key. */
void cause_access(struct qp *qp, uint32_t rkey, uint64_t va, uint64_t length, unsigned access);
/* Why a request of this end failed, as it is told in its completion. */
enum cause cause_of_failure(struct qp *qp, const struct wqe *w, enum ibv_wc_status status);

#endif
