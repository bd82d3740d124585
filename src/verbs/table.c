/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/table.h"

#include "check/operations.h"
#include "device/front.h"
#include "host/name.h"
#include "progress/poll.h"

/* Operations that are not supported. NO_OBJECT: a function that returns an object; NO: one that returns an errno. */
#define NO_OBJECT(type, name, ...)            \
	static struct type *name(__VA_ARGS__) \
	{                                     \
		return fail_null(EOPNOTSUPP); \
	}
#define NO(name, ...)                    \
	static int name(__VA_ARGS__)     \
	{                                \
		return fail(EOPNOTSUPP); \
	}

NO(modify_flow_action_esp, struct ibv_flow_action *action, struct ibv_flow_action_esp_attr *attr)
NO(destroy_flow_action, struct ibv_flow_action *action)
NO_OBJECT(ibv_flow_action, create_flow_action_esp, struct ibv_context *context, struct ibv_flow_action_esp_attr *attr)
NO(modify_qp_rate_limit, struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
NO(post_srq_ops, struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad)

void table_fill(struct verbs_context *v)
{
	static table_part *const parts[] = {
		table_add_capabilities, table_add_counters, table_add_cq, table_add_cq_ex,     table_add_dm,
		table_add_domain,	table_add_flow,	    table_add_mr, table_add_mw,	       table_add_odp,
		table_add_port,		table_add_post,	    table_add_qp, table_add_shared_qp, table_add_srq,
		table_add_wq,		table_add_xrcd,
	};

	*v = (struct verbs_context){
		.sz = sizeof(*v),
		.modify_flow_action_esp = modify_flow_action_esp,
		.destroy_flow_action = destroy_flow_action,
		.create_flow_action_esp = create_flow_action_esp,
		.modify_qp_rate_limit = modify_qp_rate_limit,
		.post_srq_ops = post_srq_ops,
		.context.abi_compat = __VERBS_ABI_IS_EXTENDED,
	};
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		parts[i](v);
	check_operations(&v->context.ops, name_lock_file, loop_progress);
}
