/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that are refused at once: one row per misuse that the man pages name, with what it answers. What is
 * refused by a queue pair's state stands in test_modify.c and test_posts.c, limits in test_creation.c and
 * test_limits.c; what is found out later in test_outcomes.c. */
#include "verbs/fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>

/* One of everything; `other` belongs to another context of the same device. */
static struct things {
	struct ibv_context *other;
	struct ibv_pd *pd, *pd_of_other, *parent;
	struct ibv_td *td;
	struct ibv_comp_channel *channel, *channel_of_other;
	struct ibv_cq *cq, *cq_of_other;
	struct ibv_srq *srq, *srq_of_other, *xrc_srq;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *rc, *ud, *srq_user, *target, *initiator;
	struct ibv_mr *mr, *bindable, *import;
	struct ibv_mw *mw1, *mw2;
	struct ibv_dm *dm;
	struct ibv_mr *dm_mr;
	struct ibv_ah *ah;
	struct ibv_wq *wq;
	struct ibv_rwq_ind_table *table;
	char memory[4096];
} t;

/* An object that should not have been made is an answer of 0. */
static int no_object(const void *object)
{
	return object ? 0 : errno;
}

/* Functions that answer -1 and errno. */
static int minus(long result)
{
	return result == -1 ? errno : (int)result;
}

static struct ibv_qp *qp_of(enum ibv_qp_type type, struct ibv_pd *pd, struct ibv_cq *send, struct ibv_cq *recv,
			    struct ibv_srq *srq)
{
	struct ibv_qp_init_attr a = {.qp_type = type,
				     .send_cq = send,
				     .recv_cq = recv,
				     .srq = srq,
				     .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};

	return ibv_create_qp(pd, &a);
}

static struct ibv_qp *qp_with(enum ibv_qp_type type, uint64_t ops, uint32_t flags, uint32_t more)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = type,
		.send_cq = t.cq,
		.recv_cq = t.cq,
		.cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
		.pd = t.pd,
		.xrcd = t.xrcd,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS | more,
		.send_ops_flags = ops,
		.create_flags = flags,
	};

	return ibv_create_qp_ex(context, &a);
}

static struct ibv_srq *srq_of(enum ibv_srq_type type, uint32_t mask, struct ibv_cq *cq, uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr_ex a = {.attr = {.max_wr = wr, .max_sge = sge},
					 .comp_mask = mask,
					 .srq_type = type,
					 .pd = t.pd,
					 .xrcd = t.xrcd,
					 .cq = cq};

	return ibv_create_srq_ex(context, &a);
}

static int modify_srq(struct ibv_srq *srq, uint32_t wr, uint32_t limit, int mask)
{
	struct ibv_srq_attr a = {.max_wr = wr, .srq_limit = limit};

	return ibv_modify_srq(srq, &a, mask);
}

static int bind_window(struct ibv_mw *mw, struct ibv_mr *mr, uint64_t addr, uint64_t length, unsigned access)
{
	struct ibv_mw_bind b = {.bind_info = {mr, addr, length, access}};

	return ibv_bind_mw(t.rc, mw, &b);
}

static int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr wr = {.opcode = opcode}, *bad = NULL;
	int error = ibv_post_send(qp, &wr, &bad);

	return error && bad != &wr ? -1 : error; /* it is told which one */
}

static int post_bind(struct ibv_mw *mw)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW}, *bad = NULL;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = mw->rkey + 1;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){t.bindable, (uintptr_t)t.memory, 8, 0};
	return ibv_post_send(t.rc, &wr, &bad);
}

static int receive(struct ibv_qp *qp, int sges)
{
	struct ibv_sge sge[2] = {{(uintptr_t)t.memory, 4, t.mr->lkey}, {(uintptr_t)t.memory, 4, t.mr->lkey}};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = sges}, *bad = NULL;
	int error = ibv_post_recv(qp, &wr, &bad);

	return error && bad != &wr ? -1 : error;
}

static int receive_shared(struct ibv_srq *srq, int sges)
{
	struct ibv_sge sge[2] = {{(uintptr_t)t.memory, 4, t.mr->lkey}, {(uintptr_t)t.memory, 4, t.mr->lkey}};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = sges}, *bad = NULL;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static struct ibv_dm *dm_of(size_t length, uint32_t align, uint32_t mask)
{
	struct ibv_alloc_dm_attr a = {.length = length, .log_align_req = align, .comp_mask = mask};

	return ibv_alloc_dm(context, &a);
}

static struct ibv_wq *wq_of(enum ibv_wq_type type, struct ibv_pd *pd, struct ibv_cq *cq, uint32_t wr)
{
	struct ibv_wq_init_attr a = {.wq_type = type, .max_wr = wr, .max_sge = 1, .pd = pd, .cq = cq};

	return ibv_create_wq(context, &a);
}

static int modify_wq(enum ibv_wq_state from, enum ibv_wq_state to)
{
	struct ibv_wq_attr a = {
		.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE, .wq_state = to, .curr_wq_state = from};

	return ibv_modify_wq(t.wq, &a);
}

static struct ibv_rwq_ind_table *table_of(uint32_t log_size, struct ibv_wq *wq)
{
	struct ibv_wq *all[2] = {wq, wq};
	struct ibv_rwq_ind_table_init_attr a = {.log_ind_tbl_size = log_size, .ind_tbl = all};

	return ibv_create_rwq_ind_table(context, &a);
}

static int moderate(uint32_t mask)
{
	struct ibv_modify_cq_attr a = {.attr_mask = mask, .moderate = {1, 1}};

	return ibv_modify_cq(t.cq, &a);
}

static struct ibv_pd *parent_of(struct ibv_pd *pd, struct ibv_td *td, uint32_t mask)
{
	struct ibv_parent_domain_init_attr a = {.pd = pd, .td = td, .comp_mask = mask};

	return ibv_alloc_parent_domain(context, &a);
}

static struct ibv_td *td_with(uint32_t mask)
{
	struct ibv_td_init_attr a = {.comp_mask = mask};

	return ibv_alloc_td(context, &a);
}

static struct ibv_cq_ex *cq_with(uint64_t wc_flags, uint32_t mask, uint32_t flags)
{
	struct ibv_cq_init_attr_ex a = {.cqe = 4, .wc_flags = wc_flags, .comp_mask = mask, .flags = flags};

	return ibv_create_cq_ex(context, &a);
}

static struct ibv_xrcd *xrcd_with(uint32_t mask, int oflags)
{
	struct ibv_xrcd_init_attr a = {.comp_mask = mask, .fd = -1, .oflags = oflags};

	return ibv_open_xrcd(context, &a);
}

static int query_values(uint32_t mask)
{
	struct ibv_values_ex v = {.comp_mask = mask};

	return ibv_query_rt_values_ex(context, &v);
}

static int query_device(uint32_t mask)
{
	struct ibv_query_device_ex_input in = {.comp_mask = mask};
	struct ibv_device_attr_ex a;

	return ibv_query_device_ex(context, &in, &a);
}

static int modify_ah_qp(uint8_t port, uint8_t index)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = port, .pkey_index = index};

	return ibv_modify_qp(t.rc, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static struct ibv_ah *ah_from(uint8_t sgid_index, struct ibv_pd *pd)
{
	struct ibv_ah_attr a = {.is_global = 1,
				.port_num = 1,
				.grh = {.sgid_index = sgid_index, .dgid = {.raw = {[10] = 255, 255, 10, 0, 0, 1}}}};

	return ibv_create_ah(pd, &a);
}

static int set_ece(uint32_t mask)
{
	struct ibv_ece ece = {.comp_mask = mask};

	return ibv_set_ece(t.rc, &ece);
}

static int connect_ah(uint8_t port, uint8_t sgid_index, uint8_t is_global)
{
	struct ibv_qp_attr a = attributes(IBV_QPS_RTR, t.srq_user);

	bring(t.initiator, t.srq_user, IBV_QPS_RESET);
	bring(t.initiator, t.srq_user, IBV_QPS_INIT);
	a.ah_attr.port_num = port;
	a.ah_attr.grh.sgid_index = sgid_index;
	a.ah_attr.is_global = is_global;
	return ibv_modify_qp(t.initiator, &a, RTR_MASK & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

static union ibv_gid gid;
static struct ibv_gid_entry entries[1];
static struct ibv_port_attr port;
static struct ibv_srq_attr srq_attr;
static struct ibv_qp_attr qp_attr;
static struct ibv_qp_init_attr qp_init;
static __be16 pkey;

enum {
	XRC = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	TYPED = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
	Z = IBV_ACCESS_ZERO_BASED,
	LW = IBV_ACCESS_LOCAL_WRITE,
	RW = IBV_ACCESS_REMOTE_WRITE,
};

/* What `call` answers while the object's handle is another. */
#define LOST(object, call)                    \
	({                                    \
		int answer_;                  \
		(object)->handle ^= 1u << 30; \
		answer_ = (call);             \
		(object)->handle ^= 1u << 30; \
		answer_;                      \
	})

static int moved_pd(void)
{
	int answer;

	t.pd->context = t.other;
	answer = ibv_dealloc_pd(t.pd);
	t.pd->context = context;
	return answer;
}

static int reregister(struct ibv_mr *mr)
{
	return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, LW) == IBV_REREG_MR_ERR_INPUT ? errno : 0;
}

/* name, call, what it answers */
#define MISUSES                                                                                                       \
	/* ibv_create_cq(3), ibv_resize_cq(3), ibv_destroy_cq(3), ibv_modify_cq(3), ibv_create_cq_ex(3) */            \
	M(cq_of_no_entries, no_object(ibv_create_cq(context, 0, NULL, NULL, 0)), EINVAL)                              \
	M(cq_of_negative_size, no_object(ibv_create_cq(context, -1, NULL, NULL, 0)), EINVAL)                          \
	M(cq_with_a_vector_that_is_not_there,                                                                         \
	  no_object(ibv_create_cq(context, 4, NULL, NULL, context->num_comp_vectors)), EINVAL)                        \
	M(cq_with_a_negative_vector, no_object(ibv_create_cq(context, 4, NULL, NULL, -1)), EINVAL)                    \
	M(cq_with_a_channel_of_another_context, no_object(ibv_create_cq(context, 4, NULL, t.channel_of_other, 0)),    \
	  EINVAL)                                                                                                     \
	M(cq_resized_to_nothing, ibv_resize_cq(t.cq, 0), EINVAL)                                                      \
	M(cq_resized_beyond_the_limit, ibv_resize_cq(t.cq, limits.max_cqe + 1), EINVAL)                               \
	M(cq_destroyed_with_queues, ibv_destroy_cq(t.cq), EBUSY)                                                      \
	M(cq_moderated_by_an_unknown_mask, moderate(IBV_CQ_ATTR_RESERVED), EOPNOTSUPP)                                \
	M(cq_with_an_unknown_field, no_object(cq_with(1ull << 40, 0, 0)), EOPNOTSUPP)                                 \
	M(cq_with_an_unknown_attribute, no_object(cq_with(0, 1u << 20, 0)), EOPNOTSUPP)                               \
	M(cq_with_an_unknown_flag, no_object(cq_with(0, IBV_CQ_INIT_ATTR_MASK_FLAGS, 1u << 20)), EOPNOTSUPP)          \
	M(channel_destroyed_with_queues, ibv_destroy_comp_channel(t.channel), EBUSY)                                  \
	/* ibv_alloc_pd(3), ibv_alloc_td(3), ibv_alloc_parent_domain(3) */                                            \
	M(pd_deallocated_in_use, ibv_dealloc_pd(t.pd), EBUSY)                                                         \
	M(td_deallocated_in_use, ibv_dealloc_td(t.td), EBUSY)                                                         \
	M(td_with_an_unknown_attribute, no_object(td_with(1)), EOPNOTSUPP)                                            \
	M(parent_domain_of_nothing, no_object(parent_of(NULL, NULL, 0)), EINVAL)                                      \
	M(parent_domain_of_another_context, no_object(parent_of(t.pd_of_other, NULL, 0)), EINVAL)                     \
	M(parent_domain_with_an_unknown_attribute, no_object(parent_of(t.pd, NULL, 1u << 20)), EOPNOTSUPP)            \
	M(parent_domain_without_its_allocators,                                                                       \
	  no_object(parent_of(t.pd, NULL, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS)), EINVAL)                           \
	/* ibv_create_qp(3), ibv_create_qp_ex(3), ibv_wr_post(3): which operations there are for which type           \
	 */                                                                                                           \
	M(qp_with_a_cq_of_another_context, no_object(qp_of(IBV_QPT_RC, t.pd, t.cq_of_other, t.cq, NULL)), EINVAL)     \
	M(qp_with_a_receive_cq_of_another_context, no_object(qp_of(IBV_QPT_RC, t.pd, t.cq, t.cq_of_other, NULL)),     \
	  EINVAL)                                                                                                     \
	M(qp_with_an_srq_of_another_context, no_object(qp_of(IBV_QPT_RC, t.pd, t.cq, t.cq, t.srq_of_other)), EINVAL)  \
	M(qp_with_an_srq_of_xrc, no_object(qp_of(IBV_QPT_RC, t.pd, t.cq, t.cq, t.xrc_srq)), EINVAL)                   \
	M(target_without_a_domain, no_object(qp_of(IBV_QPT_XRC_RECV, t.pd, NULL, NULL, NULL)), EINVAL)                \
	M(qp_with_an_unknown_attribute, no_object(qp_with(IBV_QPT_RC, 0, 0, 1u << 20)), EOPNOTSUPP)                   \
	M(qp_that_scatters_the_fcs, no_object(qp_with(IBV_QPT_RC, 0, IBV_QP_CREATE_SCATTER_FCS, 0)), EOPNOTSUPP)      \
	M(qp_deaf_to_itself_but_connected, no_object(qp_with(IBV_QPT_RC, 0, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, 0)),   \
	  EOPNOTSUPP)                                                                                                 \
	M(uc_that_reads, no_object(qp_with(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ, 0, 0)), EOPNOTSUPP)                  \
	M(uc_with_atomics, no_object(qp_with(IBV_QPT_UC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, 0, 0)), EOPNOTSUPP)     \
	M(ud_that_writes, no_object(qp_with(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE, 0, 0)), EOPNOTSUPP)                \
	M(ud_that_binds, no_object(qp_with(IBV_QPT_UD, IBV_QP_EX_WITH_BIND_MW, 0, 0)), EOPNOTSUPP)                    \
	M(ud_that_invalidates, no_object(qp_with(IBV_QPT_UD, IBV_QP_EX_WITH_SEND_WITH_INV, 0, 0)), EOPNOTSUPP)        \
	M(target_that_sends, no_object(qp_with(IBV_QPT_XRC_RECV, IBV_QP_EX_WITH_SEND, 0, IBV_QP_INIT_ATTR_XRCD)),     \
	  EOPNOTSUPP)                                                                                                 \
	M(qp_at_port_2, modify_ah_qp(2, 0), EINVAL)                                                                   \
	M(qp_of_partition_1, modify_ah_qp(1, 1), EINVAL)                                                              \
	M(qp_connected_by_port_2, connect_ah(2, 0, 1), EINVAL)                                                        \
	M(qp_connected_from_an_empty_entry, connect_ah(1, 60, 1), ENODATA)                                            \
	M(qp_connected_to_no_address, connect_ah(1, 0, 0), EINVAL)                                                    \
	M(qp_with_options_of_some_vendor, set_ece(1), EOPNOTSUPP)                                                     \
	M(qp_asked_into_nothing, ibv_query_qp(t.rc, NULL, IBV_QP_STATE, &qp_init), EINVAL)                            \
	M(no_qp_asked, ibv_query_qp(NULL, &qp_attr, IBV_QP_STATE, &qp_init), EINVAL)                                  \
	/* ibv_create_srq(3), ibv_create_srq_ex(3), ibv_modify_srq(3), ibv_query_srq(3), ibv_destroy_srq(3)           \
	 */                                                                                                           \
	M(srq_of_too_many, no_object(srq_of(IBV_SRQT_BASIC, TYPED, NULL, limits.max_srq_wr + 1u, 1)), EINVAL)         \
	M(srq_of_too_many_pieces, no_object(srq_of(IBV_SRQT_BASIC, TYPED, NULL, 1, limits.max_srq_sge + 1u)), EINVAL) \
	M(srq_without_a_domain, no_object(srq_of(IBV_SRQT_BASIC, IBV_SRQ_INIT_ATTR_TYPE, NULL, 1, 1)), EINVAL)        \
	M(xrc_srq_without_its_parts, no_object(srq_of(IBV_SRQT_XRC, TYPED, t.cq, 1, 1)), EINVAL)                      \
	M(xrc_srq_without_a_cq, no_object(srq_of(IBV_SRQT_XRC, XRC, NULL, 1, 1)), EINVAL)                             \
	M(xrc_srq_with_a_cq_of_another_context, no_object(srq_of(IBV_SRQT_XRC, XRC, t.cq_of_other, 1, 1)), EINVAL)    \
	M(srq_of_an_unknown_type, no_object(srq_of(77, TYPED, NULL, 1, 1)), EOPNOTSUPP)                               \
	M(srq_made_smaller_than_nothing, modify_srq(t.srq, 0, 0, IBV_SRQ_MAX_WR), EINVAL)                             \
	M(srq_made_too_large, modify_srq(t.srq, limits.max_srq_wr + 1u, 0, IBV_SRQ_MAX_WR), EINVAL)                   \
	M(srq_limit_above_its_size, modify_srq(t.srq, 0, 100, IBV_SRQ_LIMIT), EINVAL)                                 \
	M(srq_modified_by_an_unknown_mask, modify_srq(t.srq, 4, 1, 1 << 7), EINVAL)                                   \
	M(srq_asked_into_nothing, ibv_query_srq(t.srq, NULL), EINVAL)                                                 \
	M(number_of_no_srq, ibv_get_srq_num(t.srq, NULL), EINVAL)                                                     \
	M(no_srq_asked, ibv_query_srq(NULL, &srq_attr), EINVAL)                                                       \
	M(srq_destroyed_in_use, ibv_destroy_srq(t.srq), EBUSY)                                                        \
	/* ibv_open_xrcd(3) */                                                                                        \
	M(xrcd_without_its_attributes, no_object(xrcd_with(0, O_CREAT)), EINVAL)                                      \
	M(xrcd_with_unknown_flags, no_object(xrcd_with(IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, O_TRUNC)),  \
	  EINVAL)                                                                                                     \
	M(xrcd_closed_in_use, ibv_close_xrcd(t.xrcd), EBUSY)                                                          \
	/* ibv_post_send(3), ibv_post_recv(3), ibv_post_srq_recv(3) */                                                \
	M(send_before_its_state, post(t.rc, IBV_WR_SEND), EINVAL)                                                     \
	M(send_by_a_target, post(t.target, IBV_WR_SEND), EINVAL)                                                      \
	M(receive_by_an_initiator, receive(t.initiator, 1), EINVAL)                                                   \
	M(receive_by_a_target, receive(t.target, 1), EINVAL)                                                          \
	M(receive_by_a_user_of_an_srq, receive(t.srq_user, 1), EINVAL)                                                \
	M(receive_in_reset, receive(t.rc, 1), EINVAL)                                                                 \
	M(shared_receive_of_too_many_pieces, receive_shared(t.srq, 2), EINVAL)                                        \
	M(shared_receive_of_negative_pieces, receive_shared(t.srq, -1), EINVAL)                                       \
	/* ibv_reg_mr(3) and kin */                                                                                   \
	M(remote_writes_without_local_ones, no_object(ibv_reg_mr(t.pd, t.memory, 8, RW)), EINVAL)                     \
	M(memory_with_unknown_rights, no_object(ibv_reg_mr(t.pd, t.memory, 8, 1u << 18)), EINVAL)                     \
	M(memory_of_no_domain, no_object(ibv_reg_mr(NULL, t.memory, 8, LW)), EINVAL)                                  \
	M(memory_that_is_not_there, no_object(ibv_reg_mr(t.pd, (void *)4096, 8, LW)), EFAULT)                         \
	M(memory_around_the_end, no_object(ibv_reg_mr(t.pd, (void *)-8, 16, LW)), EINVAL)                             \
	M(memory_reregistered_by_an_import,                                                                           \
	  minus(ibv_rereg_mr(t.import, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, LW)), EINVAL)                       \
	M(memory_imported_by_no_number, no_object(ibv_import_mr(t.pd, 1 << 20)), ENOENT)                              \
	M(memory_imported_without_a_domain, no_object(ibv_import_mr(NULL, 0)), EINVAL)                                \
	M(memory_deregistered_with_a_window, ibv_dereg_mr(t.bindable), EBUSY)                                         \
	/* ibv_alloc_mw(3), ibv_bind_mw(3) */                                                                         \
	M(window_of_an_unknown_type, no_object(ibv_alloc_mw(t.pd, 3)), EINVAL)                                        \
	M(window_of_type_2_bound_as_type_1, bind_window(t.mw2, t.bindable, (uintptr_t)t.memory, 8, 0), EINVAL)        \
	M(window_of_type_1_bound_as_type_2, post_bind(t.mw1), EINVAL)                                                 \
	/* ibv_alloc_dm(3) */                                                                                         \
	M(device_memory_of_no_bytes, no_object(dm_of(0, 0, 0)), EINVAL)                                               \
	M(device_memory_beyond_the_limit, no_object(dm_of((size_t)1 << 40, 0, 0)), ENOMEM)                            \
	M(device_memory_with_an_unknown_attribute, no_object(dm_of(64, 0, 1)), EINVAL)                                \
	M(device_memory_aligned_to_too_much, no_object(dm_of(64, 40, 0)), EINVAL)                                     \
	M(device_memory_freed_in_use, ibv_free_dm(t.dm), EBUSY)                                                       \
	M(device_memory_registered_beyond_its_end, no_object(ibv_reg_dm_mr(t.pd, t.dm, 4096, 8, Z | LW)), EINVAL)     \
	M(device_memory_by_address, no_object(ibv_reg_dm_mr(t.pd, t.dm, 0, 8, LW)), EINVAL)                           \
	M(device_memory_written_beyond_its_end, ibv_memcpy_to_dm(t.dm, 64, t.memory, 4), EINVAL)                      \
	M(device_memory_read_beyond_its_end, ibv_memcpy_from_dm(t.memory, t.dm, 60, 8), EINVAL)                       \
	/* ibv_create_ah(3) */                                                                                        \
	M(address_of_no_domain, no_object(ah_from(0, NULL)), EINVAL)                                                  \
	M(address_from_an_empty_entry, no_object(ah_from(60, t.pd)), ENODATA)                                         \
	/* ibv_create_wq(3), ibv_modify_wq(3), ibv_create_rwq_ind_table(3) */                                         \
	M(work_queue_of_an_unknown_type, no_object(wq_of(7, t.pd, t.cq, 1)), EINVAL)                                  \
	M(work_queue_without_a_domain, no_object(wq_of(IBV_WQT_RQ, NULL, t.cq, 1)), EINVAL)                           \
	M(work_queue_with_a_cq_of_another_context, no_object(wq_of(IBV_WQT_RQ, t.pd, t.cq_of_other, 1)), EINVAL)      \
	M(work_queue_of_too_many, no_object(wq_of(IBV_WQT_RQ, t.pd, t.cq, limits.max_qp_wr + 1u)), EINVAL)            \
	M(work_queue_that_is_in_another_state, modify_wq(IBV_WQS_RDY, IBV_WQS_ERR), EINVAL)                           \
	M(work_queue_to_an_error_at_once, modify_wq(IBV_WQS_RESET, IBV_WQS_ERR), EINVAL)                              \
	M(work_queue_destroyed_in_use, ibv_destroy_wq(t.wq), EBUSY)                                                   \
	M(table_beyond_the_limit, no_object(table_of(30, t.wq)), EINVAL)                                              \
	M(table_of_nothing, no_object(table_of(0, NULL)), EINVAL)                                                     \
	/* ibv_query_port(3), ibv_query_gid(3), ibv_query_pkey(3), ibv_query_device_ex(3),                            \
	 * ibv_query_rt_values_ex(3) */                                                                               \
	M(port_0, ibv_query_port(context, 0, &port), EINVAL)                                                          \
	M(port_2, ibv_query_port(context, 2, &port), EINVAL)                                                          \
	M(gid_of_port_2, minus(ibv_query_gid(context, 2, 0, &gid)), EINVAL)                                           \
	M(gid_beyond_the_table, minus(ibv_query_gid(context, 1, 100000, &gid)), EINVAL)                               \
	M(gid_before_the_table, minus(ibv_query_gid(context, 1, -1, &gid)), EINVAL)                                   \
	M(gid_entry_of_port_2, ibv_query_gid_ex(context, 2, 0, entries, 0), EINVAL)                                   \
	M(gid_entry_that_is_empty, ibv_query_gid_ex(context, 1, 60, entries, 0), ENODATA)                             \
	M(gid_entry_with_unknown_flags, ibv_query_gid_ex(context, 1, 0, entries, 1), EOPNOTSUPP)                      \
	M(gid_table_with_unknown_flags, -(int)ibv_query_gid_table(context, entries, 1, 1), EOPNOTSUPP)                \
	M(gid_table_without_room, -(int)ibv_query_gid_table(context, entries, 0, 0), EINVAL)                          \
	M(pkey_beyond_the_table, minus(ibv_query_pkey(context, 1, 1, &pkey)), EINVAL)                                 \
	M(pkey_of_port_2, minus(ibv_query_pkey(context, 2, 0, &pkey)), EINVAL)                                        \
	M(pkey_that_is_not_there, minus(ibv_get_pkey_index(context, 1, htons(0x1234))), EINVAL)                       \
	M(device_asked_with_an_unknown_mask, query_device(1), EINVAL)                                                 \
	M(values_that_are_not_known, query_values(1u << 9), EINVAL)                                                   \
	/* ibv_attach_mcast(3) */                                                                                     \
	/* objects whose handles nobody knows, as of what is gone already */                                          \
	M(cq_unknown, LOST(t.cq, ibv_destroy_cq(t.cq)), ENOENT)                                                       \
	M(cq_unknown_resized, LOST(t.cq, ibv_resize_cq(t.cq, 8)), ENOENT)                                             \
	M(cq_unknown_armed, LOST(t.cq, ibv_req_notify_cq(t.cq, 0)), ENOENT)                                           \
	M(pd_unknown, LOST(t.pd, ibv_dealloc_pd(t.pd)), ENOENT)                                                       \
	M(parent_unknown, LOST(t.parent, ibv_dealloc_pd(t.parent)), ENOENT)                                           \
	M(pd_in_another_context, moved_pd(), ENOENT)                                                                  \
	M(memory_of_an_unknown_pd, LOST(t.pd, no_object(ibv_reg_mr(t.pd, t.memory, 8, LW))), ENOENT)                  \
	M(window_of_an_unknown_pd, LOST(t.pd, no_object(ibv_alloc_mw(t.pd, IBV_MW_TYPE_1))), ENOENT)                  \
	M(address_of_an_unknown_pd, LOST(t.pd, no_object(ah_from(0, t.pd))), ENOENT)                                  \
	M(qp_of_an_unknown_pd, LOST(t.pd, no_object(qp_of(IBV_QPT_RC, t.pd, t.cq, t.cq, NULL))), EINVAL)              \
	M(qp_with_an_unknown_cq, LOST(t.cq, no_object(qp_of(IBV_QPT_RC, t.pd, t.cq, t.cq, NULL))), EINVAL)            \
	M(qp_with_an_unknown_srq, LOST(t.srq, no_object(qp_of(IBV_QPT_RC, t.pd, t.cq, t.cq, t.srq))), EINVAL)         \
	M(qp_unknown, LOST(t.rc, ibv_destroy_qp(t.rc)), ENOENT)                                                       \
	M(qp_unknown_modified, LOST(t.rc, ibv_modify_qp(t.rc, &qp_attr, IBV_QP_STATE)), ENOENT)                       \
	M(qp_unknown_queried, LOST(t.rc, ibv_query_qp(t.rc, &qp_attr, 0, &qp_init)), ENOENT)                          \
	M(srq_unknown, LOST(t.srq, ibv_destroy_srq(t.srq)), ENOENT)                                                   \
	M(srq_unknown_modified, LOST(t.srq, ibv_modify_srq(t.srq, &srq_attr, IBV_SRQ_LIMIT)), ENOENT)                 \
	M(srq_unknown_queried, LOST(t.srq, ibv_query_srq(t.srq, &srq_attr)), ENOENT)                                  \
	M(memory_unknown, LOST(t.mr, ibv_dereg_mr(t.mr)), ENOENT)                                                     \
	M(memory_unknown_reregistered, LOST(t.mr, reregister(t.mr)), ENOENT)                                          \
	M(window_unknown, LOST(t.mw1, ibv_dealloc_mw(t.mw1)), ENOENT)                                                 \
	M(address_unknown, LOST(t.ah, ibv_destroy_ah(t.ah)), ENOENT)                                                  \
	M(group_of_a_connected_qp, ibv_attach_mcast(t.rc, &gid, 0), EINVAL)                                           \
	M(group_that_is_none, ibv_attach_mcast(t.ud, &gid, 0), EINVAL)

#define M(name, call, wanted)                            \
	static void name(void **state)                   \
	{                                                \
		errno = 0;                               \
		assert_int_equal((int)(call), (wanted)); \
	}
MISUSES
#undef M

static int make_all(void **state)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr_ex target = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct ibv_wq *queue[1];
	struct ibv_rwq_ind_table_init_attr table = {.ind_tbl = queue};
	struct ibv_mw_bind b;

	if (open_context(state))
		return -1;
	assert_non_null(t.other = ibv_open_device(context->device));
	assert_non_null(t.pd = ibv_alloc_pd(context));
	assert_non_null(t.pd_of_other = ibv_alloc_pd(t.other));
	assert_non_null(t.td = td_with(0));
	assert_non_null(t.parent = parent_of(t.pd, t.td, 0));
	assert_non_null(t.channel = ibv_create_comp_channel(context));
	assert_non_null(t.channel_of_other = ibv_create_comp_channel(t.other));
	assert_non_null(t.cq = ibv_create_cq(context, 16, NULL, t.channel, 0));
	assert_non_null(t.cq_of_other = ibv_create_cq(t.other, 16, NULL, NULL, 0));
	assert_non_null(t.srq = ibv_create_srq(t.pd, &srq));
	assert_non_null(t.srq_of_other = ibv_create_srq(t.pd_of_other, &srq));
	assert_non_null(t.xrcd = xrcd_with(IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, O_CREAT));
	assert_non_null(t.xrc_srq = srq_of(IBV_SRQT_XRC, XRC, t.cq, 4, 1));
	assert_non_null(t.rc = qp_of(IBV_QPT_RC, t.pd, t.cq, t.cq, NULL));
	assert_non_null(t.ud = qp_of(IBV_QPT_UD, t.pd, t.cq, t.cq, NULL));
	assert_non_null(t.srq_user = qp_of(IBV_QPT_RC, t.pd, t.cq, t.cq, t.srq));
	assert_non_null(t.initiator = qp_of(IBV_QPT_XRC_SEND, t.pd, t.cq, NULL, NULL));
	target.xrcd = t.xrcd;
	assert_non_null(t.target = ibv_create_qp_ex(context, &target));
	assert_non_null(t.mr = ibv_reg_mr(t.pd, t.memory, sizeof(t.memory), LW));
	assert_non_null(t.bindable = ibv_reg_mr(t.pd, t.memory, sizeof(t.memory), LW | IBV_ACCESS_MW_BIND));
	assert_non_null(t.import = ibv_import_mr(t.pd, t.mr->handle));
	assert_non_null(t.mw1 = ibv_alloc_mw(t.pd, IBV_MW_TYPE_1));
	assert_non_null(t.mw2 = ibv_alloc_mw(t.pd, IBV_MW_TYPE_2));
	assert_non_null(t.ah = ah_from(0, t.pd));
	assert_non_null(t.dm = dm_of(64, 0, 0));
	assert_non_null(t.dm_mr = ibv_reg_dm_mr(t.pd, t.dm, 0, 64, Z | LW));
	assert_non_null(t.wq = wq_of(IBV_WQT_RQ, t.pd, t.cq, 4));
	queue[0] = t.wq;
	assert_non_null(t.table = ibv_create_rwq_ind_table(context, &table));
	/* a window on the region, for which a queue pair has to work */
	b = (struct ibv_mw_bind){.send_flags = IBV_SEND_SIGNALED, .bind_info = {t.bindable, (uintptr_t)t.memory, 8, 0}};
	bring(t.srq_user, t.rc, IBV_QPS_RTS);
	assert_int_equal(ibv_bind_mw(t.srq_user, t.mw1, &b), 0);
	assert_int_equal(next(t.cq).status, IBV_WC_SUCCESS);
	return 0;
}

/* Nothing of what was refused has left anything behind. */
static int free_all(void **state)
{
	assert_int_equal(ibv_dealloc_mw(t.mw1), 0);
	assert_int_equal(ibv_dealloc_mw(t.mw2), 0);
	assert_int_equal(ibv_destroy_ah(t.ah), 0);
	ibv_unimport_mr(t.import);
	assert_int_equal(ibv_dereg_mr(t.mr), 0);
	assert_int_equal(ibv_dereg_mr(t.bindable), 0);
	assert_int_equal(ibv_dereg_mr(t.dm_mr), 0);
	assert_int_equal(ibv_free_dm(t.dm), 0);
	assert_int_equal(ibv_destroy_rwq_ind_table(t.table), 0);
	assert_int_equal(ibv_destroy_wq(t.wq), 0);
	assert_int_equal(ibv_destroy_qp(t.rc), 0);
	assert_int_equal(ibv_destroy_qp(t.ud), 0);
	assert_int_equal(ibv_destroy_qp(t.srq_user), 0);
	assert_int_equal(ibv_destroy_qp(t.initiator), 0);
	assert_int_equal(ibv_destroy_qp(t.target), 0);
	assert_int_equal(ibv_destroy_srq(t.srq), 0);
	assert_int_equal(ibv_destroy_srq(t.srq_of_other), 0);
	assert_int_equal(ibv_destroy_srq(t.xrc_srq), 0);
	assert_int_equal(ibv_close_xrcd(t.xrcd), 0);
	assert_int_equal(ibv_destroy_cq(t.cq), 0);
	assert_int_equal(ibv_destroy_cq(t.cq_of_other), 0);
	assert_int_equal(ibv_destroy_comp_channel(t.channel), 0);
	assert_int_equal(ibv_destroy_comp_channel(t.channel_of_other), 0);
	assert_int_equal(ibv_dealloc_pd(t.parent), 0);
	assert_int_equal(ibv_dealloc_td(t.td), 0);
	assert_int_equal(ibv_dealloc_pd(t.pd), 0);
	assert_int_equal(ibv_dealloc_pd(t.pd_of_other), 0);
	assert_int_equal(ibv_close_device(t.other), 0);
	return close_context(state);
}

int main(void)
{
#define M(name, call, wanted) cmocka_unit_test(name),
	const struct CMUnitTest tests[] = {MISUSES};

	enter_namespace();
	return cmocka_run_group_tests(tests, make_all, free_all);
}
