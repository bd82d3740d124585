/* What is not built: each entry of the ABI answers EOPNOTSUPP, and the device's attributes say so, too. Real
 * functions take their place in context.c.
 * SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/context.h"

/* NO_OBJECT: a function that would return an object; NO: one that returns an errno. */
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
#define PUBLIC_NO_OBJECT(type, name, ...)     \
	PUBLIC struct type *name(__VA_ARGS__) \
	{                                     \
		return fail_null(EOPNOTSUPP); \
	}
#define PUBLIC_NO(name, ...)             \
	PUBLIC int name(__VA_ARGS__)     \
	{                                \
		return fail(EOPNOTSUPP); \
	}

NO_OBJECT(ibv_mr, alloc_null_mr, struct ibv_pd *pd)
NO(read_counters, struct ibv_counters *counters, uint64_t *value, uint32_t count, uint32_t flags)
NO(attach_counters, struct ibv_counters *counters, struct ibv_counter_attach_attr *attr,
   struct ibv_flow *flow)
NO_OBJECT(ibv_counters, create_counters, struct ibv_context *context, struct ibv_counters_init_attr *attr)
NO(destroy_counters, struct ibv_counters *counters)
NO_OBJECT(ibv_mr, reg_dm_mr, struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
	  unsigned access)
NO_OBJECT(ibv_dm, alloc_dm, struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
NO(free_dm, struct ibv_dm *dm)
NO(modify_flow_action_esp, struct ibv_flow_action *action, struct ibv_flow_action_esp_attr *attr)
NO(destroy_flow_action, struct ibv_flow_action *action)
NO_OBJECT(ibv_flow_action, create_flow_action_esp, struct ibv_context *context,
	  struct ibv_flow_action_esp_attr *attr)
NO(modify_qp_rate_limit, struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
NO_OBJECT(ibv_pd, alloc_parent_domain, struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
NO(dealloc_td, struct ibv_td *td)
NO_OBJECT(ibv_td, alloc_td, struct ibv_context *context, struct ibv_td_init_attr *attr)
NO(post_srq_ops, struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad)
NO(destroy_rwq_ind_table, struct ibv_rwq_ind_table *table)
NO_OBJECT(ibv_rwq_ind_table, create_rwq_ind_table, struct ibv_context *context,
	  struct ibv_rwq_ind_table_init_attr *attr)
NO(destroy_wq, struct ibv_wq *wq)
NO(modify_wq, struct ibv_wq *wq, struct ibv_wq_attr *attr)
NO_OBJECT(ibv_wq, create_wq, struct ibv_context *context, struct ibv_wq_init_attr *attr)
NO(destroy_flow, struct ibv_flow *flow)
NO_OBJECT(ibv_flow, create_flow, struct ibv_qp *qp, struct ibv_flow_attr *attr)
NO_OBJECT(ibv_qp, open_qp, struct ibv_context *context, struct ibv_qp_open_attr *attr)
NO(get_srq_num, struct ibv_srq *srq, uint32_t *number)
NO_OBJECT(ibv_srq, create_srq_ex, struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
NO_OBJECT(ibv_xrcd, open_xrcd, struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
NO(close_xrcd, struct ibv_xrcd *xrcd)


const struct verbs_context unsupported_ops = {
	.alloc_null_mr = alloc_null_mr,
	.read_counters = read_counters,
	.attach_counters_point_flow = attach_counters,
	.create_counters = create_counters,
	.destroy_counters = destroy_counters,
	.reg_dm_mr = reg_dm_mr,
	.alloc_dm = alloc_dm,
	.free_dm = free_dm,
	.modify_flow_action_esp = modify_flow_action_esp,
	.destroy_flow_action = destroy_flow_action,
	.create_flow_action_esp = create_flow_action_esp,
	.modify_qp_rate_limit = modify_qp_rate_limit,
	.alloc_parent_domain = alloc_parent_domain,
	.dealloc_td = dealloc_td,
	.alloc_td = alloc_td,
	.post_srq_ops = post_srq_ops,
	.destroy_rwq_ind_table = destroy_rwq_ind_table,
	.create_rwq_ind_table = create_rwq_ind_table,
	.destroy_wq = destroy_wq,
	.modify_wq = modify_wq,
	.create_wq = create_wq,
	.ibv_destroy_flow = destroy_flow,
	.ibv_create_flow = create_flow,
	.open_qp = open_qp,
	.get_srq_num = get_srq_num,
	.create_srq_ex = create_srq_ex,
	.open_xrcd = open_xrcd,
	.close_xrcd = close_xrcd,
};

PUBLIC_NO(ibv_attach_mcast, struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
PUBLIC_NO(ibv_detach_mcast, struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
PUBLIC_NO_OBJECT(ibv_context, ibv_import_device, int fd)
PUBLIC_NO_OBJECT(ibv_pd, ibv_import_pd, struct ibv_context *context, uint32_t handle)
PUBLIC_NO_OBJECT(ibv_mr, ibv_import_mr, struct ibv_pd *pd, uint32_t handle)
PUBLIC_NO_OBJECT(ibv_dm, ibv_import_dm, struct ibv_context *context, uint32_t handle)
PUBLIC_NO_OBJECT(ibv_mr, ibv_reg_dmabuf_mr, struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
		 int fd, int access)
PUBLIC_NO(ibv_resolve_eth_l2_from_gid, struct ibv_context *context, struct ibv_ah_attr *attr,
	  uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid)

/* Nothing can have been imported. */
PUBLIC void ibv_unimport_pd(struct ibv_pd *pd)
{
}

PUBLIC void ibv_unimport_mr(struct ibv_mr *mr)
{
}

PUBLIC void ibv_unimport_dm(struct ibv_dm *dm)
{
}
