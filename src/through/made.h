/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that the adapter has made for the program get their shadows. Any thread may call. */
#ifndef UROCE_THROUGH_MADE_H
#define UROCE_THROUGH_MADE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

void made_cq(struct ibv_cq *cq);
/* `fields`: of its completions. */
void made_cq_ex(struct ibv_cq_ex *cq, uint64_t fields);
/* `ex`: the same QP, if it takes batches; NULL: it does not. */
void made_qp(struct ibv_qp *qp, struct ibv_qp_ex *ex, const struct ibv_qp_cap *cap, bool signals_all);
void made_srq(struct ibv_srq *srq);

#endif
