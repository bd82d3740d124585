/* SPDX-License-Identifier: BSD-2-Clause */
/* Posts and polls of the program. check replaces the operations of a context; without it, a post or poll costs
 * nothing more. */
#ifndef UROCE_CHECK_OPERATIONS_H
#define UROCE_CHECK_OPERATIONS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* Replaces the operations of a context. `lock_file`: see across_start(). `progress` receives what has come; NULL: the
 * adapter does so by itself. */
void check_operations(struct ibv_context_ops *ops, int (*lock_file)(void), bool (*progress)(void));
/* Notes that bytes are taken for an extended request, as inline data. Behind hooks_any(). */
void check_takes_inline(const struct ibv_qp *qp, uint64_t wr_id, const struct ibv_data_buf *list, size_t count);
/* Notes a poll of one completion, or of none. Behind hooks_any(). */
void check_polled_none(const struct ibv_cq *cq);
void check_polled_one(const struct ibv_cq *cq, uint32_t qpn, uint64_t wr_id, enum ibv_wc_status status,
		      bool is_receive);

#endif
