/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: rdma_create_ep() makes an id, bound or resolved, and its QP in one call. Without an event channel,
 * functions wait. */
#include <stdlib.h>
#include <string.h>

#include "base/msan.h"
#include "cm/channel.h"
#include "cm/front.h"
#include "cm/id.h"
#include "cm/tuned.h"
#include "fault/inject.h"

/* Stores the QP attributes for requests. */
static int keep_qp_attr(struct id *id, const struct ibv_qp_init_attr *attr, struct ibv_pd *pd)
{
	if (!attr)
		return 0;
	id->qp_attr = malloc(sizeof(*attr));
	if (!id->qp_attr)
		return fail_minus(ENOMEM);
	*id->qp_attr = *attr;
	id->qp_attr->qp_type = id->base.qp_type;
	id->wanted_pd = pd;
	return 0;
}

static int keep_connect(struct id *id, const struct rdma_addrinfo *res)
{
	if (!res->ai_connect_len)
		return 0;
	if (res->ai_connect_len > UINT8_MAX)
		return fail_minus(EINVAL);
	id->connect = malloc(res->ai_connect_len);
	if (!id->connect)
		return fail_minus(ENOMEM);
	memcpy(id->connect, res->ai_connect, res->ai_connect_len);
	id->connect_length = (uint8_t)res->ai_connect_len;
	return 0;
}

static int make_passive(struct id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			const struct ibv_qp_init_attr *attr)
{
	return rdma_bind_addr(&id->base, res->ai_src_addr) ?: keep_qp_attr(id, attr, pd);
}

static int make_active(struct id *id, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (rdma_resolve_addr(&id->base, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS) ||
	    rdma_resolve_route(&id->base, RESOLVE_MS))
		return -1;
	if (attr) {
		attr->qp_type = id->base.qp_type;
		if (rdma_create_qp(&id->base, pd, attr))
			return -1;
	}
	return keep_connect(id, res);
}

PUBLIC int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *id;
	int result;

	if (inject_call(CALL_rdma_create_ep))
		return -1;
	if (!res)
		return fail_minus(EINVAL);
	if (id_create(&id, res->ai_port_space, res->ai_qp_type))
		return -1;
	if (res->ai_flags & RAI_PASSIVE)
		result = make_passive(id_of(id), res, pd, attr);
	else
		result = make_active(id_of(id), res, pd, attr);
	if (result) {
		int error = errno;

		rdma_destroy_ep(id);
		return fail_minus(error);
	}
	*out = id;
	msan_wrote(out, sizeof(*out));
	return 0;
}

PUBLIC void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

static int take_request(struct id *listener, struct rdma_cm_event *event, struct rdma_cm_id **id)
{
	if (event->status)
		return fail_minus(abs(event->status));
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return fail_minus(EINVAL);
	if (listener->qp_attr) {
		struct ibv_qp_init_attr attr = *listener->qp_attr;

		if (rdma_create_qp(event->id, listener->wanted_pd, &attr))
			return -1;
	}
	*id = event->id;
	(*id)->event = event;
	return 0;
}

PUBLIC int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct id *listener = id_of(listen);
	struct rdma_cm_event *event;

	if (inject_call(CALL_rdma_get_request))
		return -1;
	if (!listener->sync)
		return fail_minus(EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (cm_get_event(listen->channel, &event))
		return -1;
	if (!take_request(listener, event, id)) {
		msan_wrote(id, sizeof(*id));
		return 0;
	}
	listen->event = event;
	return -1;
}
