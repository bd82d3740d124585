/* SPDX-License-Identifier: BSD-2-Clause */
/* Posts and polls of the program. The operations of a context are replaced while a program is checked, so that nothing
 * of this is on the way of one that is not. */
#ifndef UROCE_CHECK_OPERATIONS_H
#define UROCE_CHECK_OPERATIONS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* Replaces the operations of a context. `lock_file`: see across_start(). */
void check_operations(struct ibv_context_ops *ops, int (*lock_file)(void));
/* Behind hooks_any(): a completion was polled one by one, or there was none. */
void check_polled_none(const struct ibv_cq *cq);
void check_polled_one(const struct ibv_cq *cq, uint32_t qpn, uint64_t wr_id, enum ibv_wc_status status,
		      bool is_receive);

#endif
