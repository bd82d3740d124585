/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs, CQs and SRQs of ids. */
#include "cm/qp.h"

#include <string.h>

#include "cm/tuned.h"
#include "device/front.h"
#include "base/msan.h"
#include "cm/device.h"
#include "cm/id.h"
#include "cm/state.h"
#include "fault/inject.h"
#include "verbs/context.h"
#include "verbs/qp_modify.h"

uint32_t id_qkey(const struct id *id)
{
	return id->qkey ?: id->base.ps == RDMA_PS_UDP ? RDMA_UDP_QKEY : 0;
}

/* ---- states ---- */

/* Attributes that ibv_modify_qp(3) requires besides the state, for INIT, RTR and RTS. */
#define INIT_CONNECTED (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_CONNECTED  (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RTR_RESPONDER  (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_REQUESTER  (IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

static const struct {
	enum ibv_qp_type type;
	int init, rtr, rts;
} masks[] = {
	{IBV_QPT_RC, INIT_CONNECTED, RTR_CONNECTED | RTR_RESPONDER, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | RTS_REQUESTER},
	{IBV_QPT_UC, INIT_CONNECTED, RTR_CONNECTED, IBV_QP_SQ_PSN},
	{IBV_QPT_XRC_SEND, INIT_CONNECTED, RTR_CONNECTED, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | RTS_REQUESTER},
	{IBV_QPT_XRC_RECV, INIT_CONNECTED, RTR_CONNECTED | RTR_RESPONDER, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT},
	{IBV_QPT_UD, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN},
};

static int mask_of(const struct id *id, enum ibv_qp_state state)
{
	for (size_t i = 0; i < ARRAY_SIZE(masks); i++)
		if (masks[i].type == id->base.qp_type)
			return IBV_QP_STATE | (state == IBV_QPS_INIT  ? masks[i].init
					       : state == IBV_QPS_RTR ? masks[i].rtr
								      : masks[i].rts);
	return 0;
}

static void qp_fill(const struct id *id, struct ibv_qp_attr *a) REQUIRES(cm.lock)
{
	*a = (struct ibv_qp_attr){
		.qp_state = a->qp_state,
		.port_num = PORT,
		.qkey = id_qkey(id),
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.ah_attr = {.is_global = 1,
			    .port_num = PORT,
			    .grh = {.dgid = id->address.remote,
				    .sgid_index = id->gid_index,
				    .hop_limit = 64,
				    .traffic_class = id->tos}},
		.path_mtu = min_of((enum ibv_mtu)id->mtu, device_mtu(id->device)),
		.dest_qp_num = id->remote_qpn,
		.rq_psn = id->psn,
		.max_dest_rd_atomic = id->responder_resources,
		.min_rnr_timer = 0, /* 655 ms, as cma.c of Linux sets it */
		.sq_psn = id->remote_psn,
		.timeout = id->has_ack_timeout ? id->ack_timeout : CM_ACK_TIMEOUT,
		.retry_cnt = id->retry,
		.rnr_retry = id->rnr_retry,
		.max_rd_atomic = id->initiator_depth,
	};
	if (id->responder_resources)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

PUBLIC int rdma_init_qp_attr(struct rdma_cm_id *base, struct ibv_qp_attr *attr, int *mask)
{
	struct id *id = id_of(base);

	if (!id->device || attr->qp_state < IBV_QPS_INIT || attr->qp_state > IBV_QPS_RTS)
		return fail_minus(EINVAL);
	*mask = mask_of(id, attr->qp_state);
	msan_wrote(mask, sizeof(*mask));
	msan_wrote(attr, sizeof(*attr));
	lock_take(&cm.lock);
	qp_fill(id, attr);
	lock_drop(&cm.lock);
	return 0;
}

static int qp_move(struct id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	if (rdma_init_qp_attr(&id->base, &attr, &mask))
		return errno;
	return ibv_modify_qp(qp, &attr, mask);
}

int id_qp_connect(struct id *id)
{
	struct ibv_qp *qp = id->base.qp;

	if (!qp)
		return 0;
	/* INIT again: the peer's access rights are known only now */
	return qp_move(id, qp, IBV_QPS_INIT) ?: qp_move(id, qp, IBV_QPS_RTR) ?: qp_move(id, qp, IBV_QPS_RTS);
}

/* One-sided operations of the peer are not waited for: they end at the latest when the QP or the region is
 * destroyed. A wait here would cost each connection an interrupt of all processors. */
void id_qp_fail(struct id *id)
{
	if (id->base.qp && !id_is_datagram(id))
		fail_qp_unsettled(id->base.qp);
}

/* ---- CQs that the application did not give ---- */

static void destroy_cq(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	if (*cq)
		ibv_destroy_cq(*cq);
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

static int create_cq(struct rdma_cm_id *id, uint32_t entries, struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return -1;
	*cq = ibv_create_cq(id->verbs, (int)entries, id, *channel, 0);
	if (*cq)
		return 0;
	destroy_cq(cq, channel);
	return -1;
}

static int create_cqs(struct rdma_cm_id *id, uint32_t send, uint32_t recv)
{
	if (recv && !id->recv_cq && create_cq(id, recv, &id->recv_cq, &id->recv_cq_channel))
		return -1;
	if (send && !id->send_cq && create_cq(id, send, &id->send_cq, &id->send_cq_channel))
		return -1;
	return 0;
}

/* Destroys the id's CQs when neither QP nor SRQ is left. */
static void destroy_cqs(struct rdma_cm_id *id)
{
	if (id->qp || id->srq)
		return;
	destroy_cq(&id->recv_cq, &id->recv_cq_channel);
	destroy_cq(&id->send_cq, &id->send_cq_channel);
}

/* ---- QPs ---- */

/* Moves a new QP to INIT, so that receives can be posted; a UD QP to RTS. */
static int bring_up(struct id *id, struct ibv_qp *qp)
{
	int error = qp_move(id, qp, IBV_QPS_INIT);

	if (!error && id_is_datagram(id))
		error = qp_move(id, qp, IBV_QPS_RTR) ?: qp_move(id, qp, IBV_QPS_RTS);
	return error;
}

static bool suits(const struct rdma_cm_id *id, const struct ibv_qp_init_attr_ex *a)
{
	/* `device` is NULL if the id is bound to loopback, even if `verbs` is set: UROCE_LOOPBACK */
	if (id->qp || !id->verbs || !id_of((struct rdma_cm_id *)id)->device)
		return false;
	if (a->comp_mask & IBV_QP_INIT_ATTR_PD && a->pd && a->pd->context != id->verbs)
		return false;
	return !(id->recv_cq && a->recv_cq && id->recv_cq != a->recv_cq) &&
	       !(id->send_cq && a->send_cq && id->send_cq != a->send_cq);
}

PUBLIC int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *a)
{
	struct ibv_qp *qp = NULL;
	int error;

	if (inject_call(CALL_rdma_create_qp))
		return -1;
	if (!suits(id, a))
		return fail_minus(EINVAL);
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd)
		a->pd = id->pd;
	a->comp_mask |= IBV_QP_INIT_ATTR_PD;
	if (id->qp_type == IBV_QPT_XRC_RECV && !(a->comp_mask & IBV_QP_INIT_ATTR_XRCD)) {
		a->xrcd = device_xrcd(id_of(id)->device);
		a->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	}
	if (create_cqs(id, a->send_cq ? 0 : a->cap.max_send_wr, a->recv_cq ? 0 : a->cap.max_recv_wr))
		goto err;
	a->send_cq = a->send_cq ?: id->send_cq;
	a->recv_cq = a->recv_cq ?: id->recv_cq;
	a->srq = a->srq ?: id->srq;
	qp = ibv_create_qp_ex(id->verbs, a);
	if (!qp)
		goto err;
	error = bring_up(id_of(id), qp);
	if (error) {
		errno = error;
		goto err;
	}
	id->pd = qp->pd ?: id->pd; /* an XRC target has no PD; its SRQ has */
	id->qp = qp;
	return 0;

err:
	error = errno;
	if (qp)
		ibv_destroy_qp(qp);
	destroy_cqs(id);
	return fail_minus(error);
}

PUBLIC int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd ?: id->pd,
	};
	int result = rdma_create_qp_ex(id, &a);

	if (!result) {
		attr->cap = a.cap;
		attr->send_cq = a.send_cq;
		attr->recv_cq = a.recv_cq;
		attr->srq = a.srq;
		msan_wrote(attr, sizeof(*attr));
	}
	return result;
}

PUBLIC void rdma_destroy_qp(struct rdma_cm_id *id)
{
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	destroy_cqs(id);
}

/* ---- SRQs ---- */

PUBLIC int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *a)
{
	struct ibv_srq *srq;

	if (inject_call(CALL_rdma_create_srq))
		return -1;
	if (id->srq || !id->verbs || (a->comp_mask & IBV_SRQ_INIT_ATTR_PD && a->pd && a->pd->context != id->verbs))
		return fail_minus(EINVAL);
	if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !a->pd)
		a->pd = id->pd;
	a->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	if (a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && a->srq_type == IBV_SRQT_XRC) {
		if (!id_of(id)->device)
			return fail_minus(EINVAL);
		if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !a->xrcd)
			a->xrcd = device_xrcd(id_of(id)->device);
		if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !a->cq) {
			if (create_cqs(id, 0, a->attr.max_wr))
				return -1;
			a->cq = id->recv_cq;
		}
		a->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	}
	srq = ibv_create_srq_ex(id->verbs, a);
	if (!srq) {
		int error = errno;

		destroy_cqs(id);
		return fail_minus(error);
	}
	id->pd = id->pd ?: a->pd;
	id->srq = srq;
	return 0;
}

PUBLIC int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex a = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
		.pd = pd,
	};
	int result = rdma_create_srq_ex(id, &a);

	if (!result)
		attr->attr = a.attr;
	return result;
}

PUBLIC void rdma_destroy_srq(struct rdma_cm_id *id)
{
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	destroy_cqs(id);
}
