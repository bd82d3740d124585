/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests and completions of contexts that are followed. Any thread may call. */
#ifndef UROCE_THROUGH_POST_H
#define UROCE_THROUGH_POST_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* Replaces the operations for requests and completions by those of src/check/. */
void through_take_requests(struct ibv_context_ops *ops);

typedef int post_send_function(struct ibv_qp *real, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* A post of the shadow of a QP, by way of src/check/; `instead` posts to the adapter. */
int post_checked(struct ibv_qp *as, struct ibv_send_wr *wr, struct ibv_send_wr **bad, post_send_function *instead);
/* A request has failed, and its QP with it. Whether it is a send. */
bool failed_send(uint32_t qpn, uint64_t wr_id);

#endif
