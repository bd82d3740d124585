/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that the adapter has made for the program. */
#ifndef UROCE_THROUGH_CALLS_H
#define UROCE_THROUGH_CALLS_H

#include "through/through.h"

/* Of an extended CQ: and which fields its completions have. */
void made_cq(struct ibv_cq *cq);
void made_cq_ex(struct ibv_cq_ex *cq, uint64_t fields);
/* `ex`: the same, if it takes batches; NULL: it does not. */
void made_qp(struct ibv_qp *qp, struct ibv_qp_ex *ex, const struct ibv_qp_cap *cap, bool signals_all);
void made_srq(struct ibv_srq *srq);
/* The caller is neither librdmacm nor libibverbs. */
bool through_is_of_program(const void *caller);

#endif
