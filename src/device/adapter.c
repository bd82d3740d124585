/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of adapters. Each row is a published output of `ibv_devinfo -v`, or what the source of a driver says,
 * where the comment says so. Limits larger than uroce's own (hca.h) are reported as they are; requests above uroce's
 * get ENOMEM or EINVAL. */
#include "device/adapter.h"

#include <errno.h>

#include "base/base.h"
#include "base/config.h"
#include "object/hca.h"

#define BIT(type) (1u << (type))
#define ALL_TYPES                                                                                                \
	(BIT(IBV_QPT_RC) | BIT(IBV_QPT_UC) | BIT(IBV_QPT_UD) | BIT(IBV_QPT_RAW_PACKET) | BIT(IBV_QPT_XRC_SEND) | \
	 BIT(IBV_QPT_XRC_RECV))

/* Values that all published outputs of mlx5 share. The lines below max_init_rd_atom are those of github.com's
 * openucx/ucx issue 10317. */
#define MLX5                                                                                                     \
	.max_mr_size = UINT64_MAX, .page_size_cap = 0xfffffffffffff000, .vendor_id = 0x02c9, .max_qp_wr = 32768, \
	.max_sge = 30, .max_sge_rd = 30, .max_cq = 16777216, .max_cqe = 4194303, .max_mr = 16777216,             \
	.max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16, .atomic_cap = IBV_ATOMIC_HCA, .max_mw = 16777216,       \
	.max_mcast_grp = 2097152, .max_mcast_qp_attach = 240, .max_total_mcast_qp_attach = 503316480,            \
	.max_ah = 2147483647, .max_srq = 8388608, .max_srq_wr = 32767, .max_srq_sge = 31, .max_pkeys = 128,      \
	.local_ca_ack_delay = 16, .phys_port_cnt = 1

/* openucx/ucx issue 4556: ids and firmware; issue 8229: queue pairs and flags */
#define CONNECTX_6_LIMITS \
	MLX5, .max_qp = 262144, .max_pd = 16777216, .max_res_rd_atom = 4194304, .device_cap_flags = 0xe97e1c36
#define CONNECTX_6 CONNECTX_6_LIMITS, .fw_ver = "20.26.1040", .vendor_part_id = 4123

/* uroce's own limits, for adapters whose numbers only the firmware knows. */
#define OWN_OBJECTS \
	.max_qp = HCA_MAX_QP, .max_cq = HCA_MAX_CQ, .max_mr = HCA_MAX_MR, .max_ah = HCA_MAX_AH, .phys_port_cnt = 1

#define ATOMICS (BIT(IBV_WR_ATOMIC_CMP_AND_SWP) | BIT(IBV_WR_ATOMIC_FETCH_AND_ADD) | BIT(IBV_WR_ATOMIC_WRITE))

enum { /* in the order of UROCE_ADAPTER's words */
       ADAPTER_UROCE,
       ADAPTER_CX5,
       ADAPTER_CX6,
       ADAPTER_CX6LX,
       ADAPTER_IRDMA,
       ADAPTER_MLX4,
       ADAPTER_IB,
       ADAPTER_CX4LX,
       ADAPTER_RXE,
       ADAPTER_SIW,
       ADAPTER_CX7,
       ADAPTER_BNXT_RE,
       ADAPTER_EFA,
       ADAPTER_IONIC,
       ADAPTER_APPLE,
       ADAPTERS,
};

static const struct adapter adapters[] = {
	[ADAPTER_UROCE] = {
		.device = "uroce",
		.board = "uroce",
		.attr = {
			.fw_ver = "0.1.0",
			.max_mr_size = UINT64_MAX,
			.page_size_cap = 0xfffff000, /* any power of two from 4 KiB */
			.vendor_id = 0x025243, /* a locally administered OUI, of no hardware vendor */
			/* perftest checks the part number alone, without the vendor, and allows inline sends only
			 * for part numbers that it knows. So this is a known one. */
			.vendor_part_id = 4119,
			.max_qp = HCA_MAX_QP,
			.max_qp_wr = HCA_MAX_QP_WR,
			.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
					    IBV_DEVICE_AUTO_PATH_MIG |
					    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
					    IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
					    IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS |
					    IBV_DEVICE_MANAGED_FLOW_STEERING,
			.max_sge = HCA_MAX_SGE,
			.max_sge_rd = HCA_MAX_SGE,
			.max_cq = HCA_MAX_CQ,
			.max_cqe = HCA_MAX_CQE,
			.max_mr = HCA_MAX_MR,
			.max_mw = HCA_MAX_MW,
			.max_srq = HCA_MAX_SRQ,
			.max_srq_wr = HCA_MAX_SRQ_WR,
			.max_srq_sge = HCA_MAX_SGE,
			.max_pd = HCA_MAX_PD,
			.max_qp_rd_atom = HCA_MAX_RD_ATOMIC,
			.max_qp_init_rd_atom = HCA_MAX_RD_ATOMIC,
			.max_res_rd_atom = HCA_MAX_RD_ATOMIC * HCA_MAX_QP,
			.atomic_cap = IBV_ATOMIC_HCA,
			.max_ah = HCA_MAX_AH,
			.max_mcast_grp = HCA_MAX_GROUPS,
			.max_mcast_qp_attach = HCA_MAX_GROUP_QPS,
			.max_total_mcast_qp_attach = HCA_MAX_GROUP_MEMBERS,
			.max_pkeys = 1,
			.local_ca_ack_delay = 15,
			.phys_port_cnt = 1,
		},
		.inline_most = HCA_MAX_INLINE,
		.types = ALL_TYPES,
		.odp = true,
	},
	[ADAPTER_CX5] = { /* open-mpi/ompi pull request 6137 */
		.device = "mlx5_",
		.board = "MT_0000000008",
		.attr = {MLX5, .fw_ver = "16.23.1020", .vendor_part_id = 4119, .max_qp = 262144, .max_pd = 16777216,
			 .max_res_rd_atom = 4194304, .device_cap_flags = 0xe5721c36},
		.inline_most = HCA_MAX_INLINE,
		.types = ALL_TYPES,
		.odp = true,
	},
	[ADAPTER_CX6] = {
		.device = "mlx5_",
		.board = "MT_0000000222",
		.attr = {CONNECTX_6},
		.inline_most = HCA_MAX_INLINE,
		.types = ALL_TYPES,
		.odp = true,
	},
	[ADAPTER_CX6LX] = { /* openucx/ucx issue 10317 */
		.device = "mlx5_",
		.board = "LNV0000000049",
		.attr = {MLX5, .vendor_part_id = 4127, .max_qp = 131072, .max_pd = 8388608,
			 .max_res_rd_atom = 2097152, .device_cap_flags = 0x25321c36},
		.inline_most = HCA_MAX_INLINE,
		.types = ALL_TYPES,
		.odp = true,
	},
	[ADAPTER_IRDMA] = { /* an E810: deepseek-ai/3FS issue 192; inline and types: providers/irdma of rdma-core */
		.device = "irdma",
		.board = "",
		.attr = {
			.fw_ver = "1.74",
			.max_mr_size = 0x200000000000,
			.page_size_cap = 0x40201000,
			.vendor_id = 0x8086,
			.vendor_part_id = 5522,
			.hw_ver = 2,
			.max_qp = 4092,
			.max_qp_wr = 8127,
			.device_cap_flags = 0x01221000,
			.max_sge = 6,
			.max_sge_rd = 6,
			.max_cq = 8189,
			.max_cqe = 1048574,
			.max_mr = 4194301,
			.max_pd = 262141,
			.max_qp_rd_atom = 8,
			.max_qp_init_rd_atom = 8,
			.atomic_cap = IBV_ATOMIC_NONE,
			.max_mcast_grp = 4096,
			.max_mcast_qp_attach = 8,
			.max_total_mcast_qp_attach = 32768,
			.max_ah = 131072,
			.max_pkeys = 1,
			.phys_port_cnt = 1,
		},
		.inline_most = 101,
		.types = BIT(IBV_QPT_RC) | BIT(IBV_QPT_UD),
		.lacks = ATOMICS,
	},
	[ADAPTER_MLX4] = { /* a ConnectX-3: claudebarthels/infinity issue 5, where it has two ports */
		.device = "mlx4_",
		.board = "MT_1080120023",
		.attr = {
			.fw_ver = "2.33.5100",
			.max_mr_size = UINT64_MAX,
			.page_size_cap = 0xfffffe00,
			.vendor_id = 0x02c9,
			.vendor_part_id = 4099,
			.max_qp = 131000,
			.max_qp_wr = 16351,
			.device_cap_flags = 0x057e9c66,
			.max_sge = 32,
			.max_sge_rd = 30,
			.max_cq = 65408,
			.max_cqe = 4194303,
			.max_mr = 524032,
			.max_pd = 32764,
			.max_qp_rd_atom = 16,
			.max_res_rd_atom = 2096000,
			.max_qp_init_rd_atom = 128,
			.atomic_cap = IBV_ATOMIC_HCA,
			.max_mcast_grp = 8192,
			.max_mcast_qp_attach = 248,
			.max_total_mcast_qp_attach = 2031616,
			.max_ah = 2147483647,
			.max_srq = 65472,
			.max_srq_wr = 16383,
			.max_srq_sge = 31,
			.max_pkeys = 128,
			.local_ca_ack_delay = 15,
			.phys_port_cnt = 1,
		},
		.inline_most = HCA_MAX_INLINE,
		.types = ALL_TYPES,
		.lacks = BIT(IBV_WR_ATOMIC_WRITE),
	},
	[ADAPTER_IB] = {
		.device = "mlx5_ib",
		.board = "MT_0000000222",
		.attr = {CONNECTX_6},
		.inline_most = HCA_MAX_INLINE,
		.types = ALL_TYPES,
		.odp = true,
		.infiniband = true,
	},
	[ADAPTER_CX4LX] = { /* spdk/spdk issue 3116 */
		.device = "mlx5_",
		.board = "MT_2420110034",
		.attr = {MLX5, .fw_ver = "14.32.1010", .vendor_part_id = 4117, .max_qp = 131072, .max_pd = 8388608,
			 .max_res_rd_atom = 2097152, .device_cap_flags = 0x25321c36},
		.inline_most = HCA_MAX_INLINE,
		.types = ALL_TYPES,
		.odp = true,
	},
	[ADAPTER_RXE] = { /* openucx/ucx issue 5045; READs in flight and inline: rxe_param.h of Linux */
		.device = "rxe",
		.board = "",
		.attr = {
			.max_mr_size = UINT64_MAX,
			.page_size_cap = 0xfffff000,
			.max_qp = 65536,
			.max_qp_wr = 16384,
			.device_cap_flags = 0x00203c76,
			.max_sge = 32,
			.max_sge_rd = 32,
			.max_cq = 16384,
			.max_cqe = 32767,
			.max_mr = 262144,
			.max_pd = 32764,
			.max_qp_rd_atom = 128,
			.max_res_rd_atom = 258048,
			.max_qp_init_rd_atom = 128,
			.atomic_cap = IBV_ATOMIC_HCA,
			.max_mcast_grp = 8192,
			.max_mcast_qp_attach = 56,
			.max_total_mcast_qp_attach = 458752,
			.max_ah = 100,
			.max_srq = 960,
			.max_srq_wr = 16384,
			.max_srq_sge = 27,
			.max_pkeys = 64,
			.local_ca_ack_delay = 15,
			.phys_port_cnt = 1,
		},
		.inline_most = 400,
		.types = BIT(IBV_QPT_RC) | BIT(IBV_QPT_UC) | BIT(IBV_QPT_UD),
	},
	[ADAPTER_SIW] = { /* siw.h, siw_verbs.c and siw-abi.h of Linux */
		.device = "siw",
		.board = "",
		.attr = {
			.max_mr_size = UINT64_MAX,
			.page_size_cap = 4096,
			.vendor_id = 0x626d74,
			.max_qp = 102400,
			.max_qp_wr = 32768,
			.device_cap_flags = 0x00200000,
			.max_sge = 6,
			.max_sge_rd = 1,
			.max_cq = 102400,
			.max_cqe = 3276800,
			.max_mr = 1024000,
			.max_pd = 102400,
			.max_qp_rd_atom = 128,
			.max_res_rd_atom = 13107200,
			.max_qp_init_rd_atom = 128,
			.atomic_cap = IBV_ATOMIC_NONE,
			.max_srq = 102400,
			.max_srq_wr = 327680,
			.max_srq_sge = 6,
			.phys_port_cnt = 1,
		},
		.inline_most = 80,
		.types = BIT(IBV_QPT_RC),
		/* map_send_opcode in siw.c of rdma-core */
		.lacks = ATOMICS | BIT(IBV_WR_SEND_WITH_IMM) | BIT(IBV_WR_RDMA_WRITE_WITH_IMM) | BIT(IBV_WR_BIND_MW) |
			 BIT(IBV_WR_LOCAL_INV),
	},
	[ADAPTER_CX7] = { /* deepseek-ai/DeepEP issue 355: ids and firmware; the rest is the ConnectX-6's */
		.device = "mlx5_",
		.board = "MT_0000000838",
		.attr = {CONNECTX_6_LIMITS, .fw_ver = "28.42.1000", .vendor_part_id = 4129},
		.inline_most = HCA_MAX_INLINE,
		.types = ALL_TYPES,
		.odp = true,
	},
	[ADAPTER_BNXT_RE] = { /* a BCM57508: ib_verbs.c, bnxt_re.h, qplib_sp.c and bnxt.c of Linux */
		.device = "bnxt_re",
		.board = "",
		.attr = {
			OWN_OBJECTS,
			.max_mr_size = 1ull << 39,
			.page_size_cap = 0x7ffff000,
			.vendor_id = 0x14e4,
			.vendor_part_id = 5968,
			.max_qp_wr = HCA_MAX_QP_WR, /* the firmware's, less 128 */
			.device_cap_flags = 0x01225d81,
			.max_sge = 6,
			.max_sge_rd = 6,
			.max_cqe = HCA_MAX_CQE,
			.max_mw = HCA_MAX_MW,
			.max_pd = 65536,
			.max_qp_rd_atom = 126,
			.max_qp_init_rd_atom = 126,
			.atomic_cap = IBV_ATOMIC_GLOB, /* where PCI passes atomics; else none */
			.max_srq = HCA_MAX_SRQ,
			.max_srq_wr = HCA_MAX_SRQ_WR,
			.max_srq_sge = 6,
			.max_pkeys = 1,
			.local_ca_ack_delay = 16,
		},
		.inline_most = HCA_MAX_INLINE,
		.types = BIT(IBV_QPT_RC) | BIT(IBV_QPT_UD) | BIT(IBV_QPT_RAW_PACKET),
		.lacks = BIT(IBV_WR_ATOMIC_WRITE),
	},
	[ADAPTER_EFA] = { /* efa_main.c, efa_verbs.c and efa_io_defs.h of Linux. Its SRD queue pairs are missing */
		.device = "efa_",
		.board = "",
		.attr = {
			OWN_OBJECTS,
			.fw_ver = "0.0.0.0",
			.max_mr_size = UINT64_MAX,
			.page_size_cap = 0xfffff000,
			.vendor_id = 0x1d0f,
			.vendor_part_id = 61346,
			.hw_ver = 0xefa2,
			.max_qp_wr = HCA_MAX_QP_WR,
			.max_sge = 2,
			.max_sge_rd = 1,
			.max_cqe = HCA_MAX_CQE,
			.max_pd = HCA_MAX_PD,
			.atomic_cap = IBV_ATOMIC_NONE,
			.max_pkeys = 1,
		},
		.inline_most = 32,
		.types = BIT(IBV_QPT_UD),
	},
	[ADAPTER_IONIC] = { /* ionic_ibdev.c, ionic_ibdev.h, ionic_queue.h and ionic_controlpath.c of Linux */
		.device = "ionic_",
		.board = "",
		.attr = {
			OWN_OBJECTS,
			.max_mr_size = UINT64_MAX,
			.page_size_cap = 0x40201000,
			.vendor_id = 0x1dd8,
			.vendor_part_id = 4098,
			.max_qp_wr = 65535,
			.device_cap_flags = 0x01220000,
			.max_sge = 8,
			.max_sge_rd = 8,
			.max_cqe = 65435,
			.max_mw = HCA_MAX_MW,
			.max_pd = 1024,
			.max_qp_rd_atom = 16,
			.max_res_rd_atom = 16,
			.max_qp_init_rd_atom = 16,
			.atomic_cap = IBV_ATOMIC_GLOB,
			.max_pkeys = 1,
		},
		.inline_most = HCA_MAX_INLINE,
		.types = BIT(IBV_QPT_RC) | BIT(IBV_QPT_UC) | BIT(IBV_QPT_UD),
		.lacks = BIT(IBV_WR_ATOMIC_WRITE),
	},
	/* Thunderbolt, of macOS 26: Apple's technical note TN3205; regions: ml-explore/mlx issue 3162, errno: pull request
	 * 4209 */
	[ADAPTER_APPLE] = {
		.device = "rdma_en",
		.board = "",
		.attr = {
			.max_mr_size = UINT64_MAX,
			.page_size_cap = 0x4000,
			.max_qp = 10,
			.max_qp_wr = 4095, /* of 4 KiB each; there, a longer request takes more of them */
			.max_sge = 1,
			.max_cq = HCA_MAX_CQ,
			.max_cqe = 4096,
			.max_mr = 100,
			.max_pd = HCA_MAX_PD,
			.atomic_cap = IBV_ATOMIC_NONE,
			.max_ah = HCA_MAX_AH,
			.max_pkeys = 1,
			.phys_port_cnt = 1,
		},
		.inline_most = HCA_MAX_INLINE,
		.message_most = 4095 * 4096,
		.no_more_qps = EBUSY,
		.types = BIT(IBV_QPT_UC),
		.lacks = ~BIT(IBV_WR_SEND),
		.waits = true,
	},
};
static_assert(ARRAY_SIZE(adapters) == ADAPTERS, "a row for each");

const struct adapter *adapter(void)
{
	int words[2];
	int count = config_words(CONFIG_ADAPTER, words, (int)ARRAY_SIZE(words));

	return &adapters[count ? words[0] : ADAPTER_UROCE];
}

/* relaxed: only the count matters */
bool adapter_take(_Atomic uint32_t *count, int most)
{
	if (atomic_fetch_add_explicit(count, 1, memory_order_relaxed) < (uint32_t)most)
		return true;
	adapter_give(count);
	return false;
}

void adapter_give(_Atomic uint32_t *count)
{
	atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
}

bool adapter_is_infiniband(void)
{
	int words[2];
	int count = config_words(CONFIG_ADAPTER, words, (int)ARRAY_SIZE(words));

	return adapter()->infiniband || (count == 2 && adapters[words[1]].infiniband);
}
