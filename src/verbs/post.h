/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting work requests, for files of uroce itself. */
#ifndef UROCE_VERBS_POST_H
#define UROCE_VERBS_POST_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <sys/uio.h>

/* ibv_post_send(3) and ibv_post_recv(3). */
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* All requests of the list, of that length; or none, with ENOMEM, if the queue has no room for all. */
int post_batch(struct ibv_qp *qp, struct ibv_send_wr *wr, uint32_t count);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* engine_place() with what waits on the QP before it. */
bool post_placed(struct ibv_qp *qp, const struct iovec *from, unsigned count, uint32_t length, uint64_t address,
		 uint32_t rkey);

#endif
