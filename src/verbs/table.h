/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of verbs that a context gets: struct verbs_context with the operations of an adapter. Operations that no
 * file has return EOPNOTSUPP, and the device attributes agree. */
#ifndef UROCE_VERBS_TABLE_H
#define UROCE_VERBS_TABLE_H

#include <infiniband/verbs.h>

/* Fills in the whole table. */
void table_fill(struct verbs_context *v);

/* Each adds the operations of the file with its name. */
typedef void table_part(struct verbs_context *v);
table_part table_add_capabilities, table_add_counters, table_add_cq, table_add_cq_ex, table_add_dm, table_add_domain,
	table_add_flow, table_add_mr, table_add_mw, table_add_odp, table_add_port, table_add_post, table_add_qp,
	table_add_shared_qp, table_add_srq, table_add_wq, table_add_xrcd;

#endif
