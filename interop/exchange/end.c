// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>

#include "exchange.h"

struct side me, peer;
struct ibv_pd *pd;
struct ibv_cq *send_cq, *recv_cq;
struct ibv_qp *qp;
struct ibv_mr *mr;
uint8_t *own, *target;

void end_create(void)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL), *device = NULL;
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 64,
						.max_recv_wr = RECEIVES,
						.max_send_sge = 3,
						.max_recv_sge = 3,
						.max_inline_data = INLINE}};

	for (; list && *list && !device; list++)
		if (!settings.device || !strcmp(settings.device, ibv_get_device_name(*list)))
			device = *list;
	CHECK(device && (context = ibv_open_device(device)), "no device %s", settings.device ?: "");
	own = aligned_alloc(4096, 2 * SPACE);
	target = own + SPACE;
	memset(own, 0, 2 * SPACE);
	CHECK((pd = ibv_alloc_pd(context)), "ibv_alloc_pd: %m");
	/* A window needs a region that allows windows; not every device knows them. */
	mr = ibv_reg_mr(pd, own, 2 * SPACE, ALL | IBV_ACCESS_MW_BIND) ?: ibv_reg_mr(pd, own, 2 * SPACE, ALL);
	CHECK(mr, "ibv_reg_mr: %m");
	CHECK((send_cq = attr.send_cq = ibv_create_cq(context, 128, NULL, NULL, 0)), "ibv_create_cq: %m");
	CHECK((recv_cq = attr.recv_cq = ibv_create_cq(context, 128, NULL, NULL, 0)), "ibv_create_cq: %m");
	CHECK((qp = ibv_create_qp(pd, &attr)), "ibv_create_qp: %m");
	me = (struct side){.qpn = qp->qp_num,
			   .psn = (active ? settings.first_psn : ~settings.first_psn) & 0xffffff,
			   .rkey = mr->rkey,
			   .addr = (uintptr_t)target};
	CHECK(!ibv_query_gid(context, 1, settings.gid_index, &me.gid), "no GID %d", settings.gid_index);
}

void end_to_init(unsigned access)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	int rc;

	rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	CHECK(!rc, "to INIT: %s", strerror(rc));
}

void end_to_rts(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = peer.qpn,
		.rq_psn = peer.psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = peer.gid, .sgid_index = (uint8_t)settings.gid_index, .hop_limit = 64}}};
	int rc;

	while (128 << attr.path_mtu < settings.mtu)
		attr.path_mtu++;
	rc = ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	CHECK(!rc, "to RTR: %s", strerror(rc));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .sq_psn = me.psn,
				    .timeout = (uint8_t)settings.timeout,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 4};
	rc = ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC);
	CHECK(!rc, "to RTS: %s", strerror(rc));
}

void ready(void)
{
	end_to_rts();
	barrier();
}
