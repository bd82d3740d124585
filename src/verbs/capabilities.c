/* SPDX-License-Identifier: BSD-2-Clause */
/* The capabilities of the adapter: ibv_query_device() and its extended form. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "memory/guarded.h"
#include "object/rss.h"
#include "verbs/context.h"

#define DEVICE_ATOMIC_WRITE (1ull << 40) /* rdma-core 44 does not define it: IB_UVERBS_DEVICE_ATOMIC_WRITE */

static void capabilities_fill(struct ibv_device_attr *a, const struct device *d)
{
	memset(a, 0, sizeof(*a));
	snprintf(a->fw_ver, sizeof(a->fw_ver), "%s", DEVICE_FIRMWARE);
	a->node_guid = a->sys_image_guid = d->guid;
	a->max_mr_size = UINT64_MAX;
	a->page_size_cap = 0xfffff000; /* page size does not matter here: any power of two from 4 KiB */
	a->vendor_id = DEVICE_VENDOR_ID;
	a->vendor_part_id = DEVICE_PART_ID;
	a->max_qp = HCA_MAX_QP;
	a->max_qp_wr = HCA_MAX_QP_WR;
	a->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
			      IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC |
			      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS |
			      IBV_DEVICE_MANAGED_FLOW_STEERING;
	a->max_sge = a->max_sge_rd = HCA_MAX_SGE;
	a->max_cq = HCA_MAX_CQ;
	a->max_cqe = HCA_MAX_CQE;
	a->max_mr = HCA_MAX_MR;
	a->max_mw = HCA_MAX_MW;
	a->max_srq = HCA_MAX_SRQ;
	a->max_srq_wr = HCA_MAX_SRQ_WR;
	a->max_srq_sge = HCA_MAX_SGE;
	a->max_pd = HCA_MAX_PD;
	a->max_qp_rd_atom = a->max_qp_init_rd_atom = HCA_MAX_RD_ATOMIC;
	a->max_res_rd_atom = HCA_MAX_RD_ATOMIC * HCA_MAX_QP;
	a->atomic_cap = IBV_ATOMIC_HCA;
	a->max_ah = HCA_MAX_AH;
	a->max_mcast_grp = HCA_MAX_GROUPS;
	a->max_mcast_qp_attach = HCA_MAX_GROUP_QPS;
	a->max_total_mcast_qp_attach = HCA_MAX_GROUP_MEMBERS;
	a->max_pkeys = 1;
	a->local_ca_ack_delay = 15;
	a->phys_port_cnt = 1;
}

PUBLIC int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	capabilities_fill(attr, context_of(context)->device);
	return 0;
}

#define ODP_SUPPORT_ATOMIC_WRITE (1u << 7) /* IBV_ODP_SUPPORT_ATOMIC_WRITE, of rdma-core 58 and later */

/* All registered memory is paged on demand; with IBV_ACCESS_ON_DEMAND it may be unmapped at registration. Atomics are
 * supported too, since the processor executes them. */
static void fill_odp(struct ibv_device_attr_ex *a)
{
	const uint32_t messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	const uint32_t all = messages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
			     ODP_SUPPORT_ATOMIC_WRITE;

	if (!guarded_available())
		return;
	a->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	a->odp_caps.per_transport_caps.rc_odp_caps = all;
	a->odp_caps.per_transport_caps.uc_odp_caps = messages | IBV_ODP_SUPPORT_WRITE;
	a->odp_caps.per_transport_caps.ud_odp_caps = messages;
	a->xrc_odp_caps = all;
}

int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex a = {0};

	if ((input && input->comp_mask) || size < sizeof(attr->orig_attr))
		return fail(EINVAL);
	capabilities_fill(&a.orig_attr, context_of(context)->device);
	a.device_cap_flags_ex = a.orig_attr.device_cap_flags | DEVICE_ATOMIC_WRITE;
	a.completion_timestamp_mask = UINT64_MAX;
	a.hca_core_clock = 1000000; /* kHz: time stamps are in ns */
#if RDMA_CORE >= 35
	a.phys_port_cnt_ex = 1;
#endif
	a.max_dm_size = HCA_MAX_DM;
	a.max_wq_type_rq = HCA_MAX_WQ;
	a.rss_caps = (struct ibv_rss_caps){
		.supported_qpts = 1u << IBV_QPT_RAW_PACKET,
		.max_rwq_indirection_tables = HCA_MAX_WQ_TABLES,
		.max_rwq_indirection_table_size = RSS_TABLE,
		.rx_hash_fields_mask = RSS_FIELDS,
		.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	};
	fill_odp(&a);
	a.cq_mod_caps = (struct ibv_cq_moderation_caps){UINT16_MAX, UINT16_MAX};
	memset(attr, 0, size);
	memcpy(attr, &a, min_of(size, sizeof(a)));
	return 0;
}

int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return fail(EINVAL);
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK)
		clock_gettime(CLOCK_MONOTONIC, &values->raw_clock); /* the clock of the time stamps of cq_ex.c */
	return 0;
}
