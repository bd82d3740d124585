/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that the adapter has made for the program. */
#ifndef UROCE_THROUGH_CALLS_H
#define UROCE_THROUGH_CALLS_H

#include "through/through.h"

void made_cq(struct ibv_cq *cq, bool is_extended);
void made_qp(struct ibv_qp *qp, const struct ibv_qp_cap *cap, bool signals_all);
void made_srq(struct ibv_srq *srq);

#endif
