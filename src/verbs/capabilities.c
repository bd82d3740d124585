/* SPDX-License-Identifier: BSD-2-Clause */
/* The capabilities of the adapter: ibv_query_device() and its extended form. */
#include <string.h>
#include <time.h>

#include "base/msan.h"
#include "device/adapter.h"
#include "device/device.h"
#include "device/front.h"
#include "fault/inject.h"
#include "memory/guarded.h"
#include "object/hca.h"
#include "object/rss.h"
#include "verbs/context.h"
#include "verbs/table.h"

#define DEVICE_ATOMIC_WRITE (1ull << 40) /* rdma-core 44 does not define it: IB_UVERBS_DEVICE_ATOMIC_WRITE */

static void fill_attributes(struct ibv_device_attr *a, const struct device *d)
{
	*a = adapter()->attr;
	a->node_guid = a->sys_image_guid = d->guid;
}

PUBLIC int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	if (inject_call(CALL_ibv_query_device))
		return errno;
	fill_attributes(attr, context_of(context)->device);
	msan_wrote(attr, sizeof(*attr));
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

/* What the adapter has beyond ibv_query_device(). */
static void fill_extensions(struct ibv_device_attr_ex *a)
{
	a->device_cap_flags_ex |= DEVICE_ATOMIC_WRITE;
	a->completion_timestamp_mask = UINT64_MAX;
	a->hca_core_clock = 1000000; /* kHz: time stamps are in ns */
	a->max_dm_size = HCA_MAX_DM;
	a->max_wq_type_rq = HCA_MAX_WQ;
	a->rss_caps = (struct ibv_rss_caps){
		.supported_qpts = 1u << IBV_QPT_RAW_PACKET,
		.max_rwq_indirection_tables = HCA_MAX_WQ_TABLES,
		.max_rwq_indirection_table_size = RSS_TABLE,
		.rx_hash_fields_mask = RSS_FIELDS,
		.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	};
	fill_odp(a);
	a->cq_mod_caps = (struct ibv_cq_moderation_caps){UINT16_MAX, UINT16_MAX};
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex a = {0};

	if (inject_call(CALL_ibv_query_device))
		return errno;
	if ((input && input->comp_mask) || size < sizeof(attr->orig_attr))
		return fail(EINVAL);
	fill_attributes(&a.orig_attr, context_of(context)->device);
	a.device_cap_flags_ex = (unsigned)a.orig_attr.device_cap_flags;
#if RDMA_CORE >= 35
	a.phys_port_cnt_ex = 1;
#endif
	if (adapter()->odp)
		fill_extensions(&a);
	memset(attr, 0, size);
	memcpy(attr, &a, min_of(size, sizeof(a)));
	msan_wrote(attr, size);
	return 0;
}

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return fail(EINVAL);
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK)
		clock_gettime(CLOCK_MONOTONIC, &values->raw_clock); /* the clock of the time stamps of cq_ex.c */
	msan_wrote(values, sizeof(*values));
	return 0;
}

void table_add_capabilities(struct verbs_context *v)
{
	v->query_device_ex = query_device_ex;
	v->query_rt_values = query_rt_values;
}
