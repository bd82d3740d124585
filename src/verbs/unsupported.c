/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations that are not supported: each entry of the ABI returns EOPNOTSUPP, and the device attributes agree.
 * context.c replaces the entries that are supported. */
#include "device/front.h"
#include "verbs/context.h"

/* NO_OBJECT: a function that returns an object; NO: one that returns an errno. */
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

const struct verbs_context unsupported_ops = {
	.modify_flow_action_esp = modify_flow_action_esp,
	.destroy_flow_action = destroy_flow_action,
	.create_flow_action_esp = create_flow_action_esp,
	.modify_qp_rate_limit = modify_qp_rate_limit,
	.post_srq_ops = post_srq_ops,
};
