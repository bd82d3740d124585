/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversion of the machine's events to rdma_cm events. */

#include "cm/events.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "cm/address.h"
#include "cm/agent.h"
#include "cm/bind.h"
#include "cm/calls.h"
#include "cm/channel.h"
#include "cm/cm.h"
#include "cm/comm_id.h"
#include "cm/device.h"
#include "cm/guardian.h"
#include "cm/id.h"
#include "cm/liveness.h"
#include "cm/probe.h"
#include "cm/qp.h"
#include "cm/state.h"

/* ---- when the application fetches an event ---- */

static bool prepare_request(struct event *e)
{
	struct id *id = e->request;
	int err;

	lock_take(&cm.lock);
	e->id->backlog++;
	e->request = NULL;
	lock_drop(&cm.lock);
	err = id_set_device(id);
	if (!err && e->id->sync && rdma_migrate_id(&id->base, NULL))
		err = -errno;
	if (!err) {
		if (!id_is_datagram(id))
			id_guard(id);
		return true;
	}
	log_warn("a connection request is rejected: %s", strerror(-err));
	rdma_destroy_id(&id->base); /* sends the REJ */
	return false;
}

/* Moves the QP to RTS before the RTU is sent: the peer's data may arrive immediately after. */
static bool prepare_response(struct event *e)
{
	struct id *id = e->id;
	int error;

	if (!id->base.qp)
		return true;
	error = id_qp_connect(id);
	if (!error) {
		id_guard(id);
		lock_take(&cm.lock);
		error = id->connection ? -connection_ready(id->connection, &(struct cm_mad){0}, cm_now()) : EINVAL;
		lock_drop(&cm.lock);
	}
	e->base.event = error ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
	e->base.status = -error;
	if (error) {
		id->failed = true;
		id_qp_fail(id);
	}
	return true;
}

static bool prepare_rejected(struct event *e)
{
	if (!e->id->failed)
		id_qp_fail(e->id);
	return !e->id->failed;
}

static bool prepare_disconnected(struct event *e)
{
	return !e->id->failed;
}

/* ---- under cm.lock, in the thread that received the message ---- */

static void set_conn(struct event *e, struct id *id, const struct cm_mad *mad)
{
	struct rdma_conn_param *p = &e->base.param.conn;

	p->private_data = e->private_data;
	p->flow_control = mad->flow_control;
	p->rnr_retry_count = mad->rnr_retry;
	p->retry_count = mad->retry;
	p->srq = mad->srq;
	p->qp_num = mad->qpn;
	/* the initiator depth of one side is the responder resources of the other */
	p->responder_resources = mad->initiator_depth;
	p->initiator_depth = mad->responder_resources;
}

static void events_replied(struct id *id, const struct cm_mad *rep) REQUIRES(cm.lock)
{
	struct event *e = event_make(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);

	id->remote_qpn = rep->qpn;
	id->remote_psn = rep->psn;
	id->rnr_retry = rep->rnr_retry;
	id->responder_resources = rep->initiator_depth;
	id->initiator_depth = rep->responder_resources;
	id->remote_ece = (struct ibv_ece){.vendor_id = rep->vendor_id, .options = rep->modifier};
	if (!e)
		return;
	e->prepare = prepare_response;
	set_conn(e, id, rep);
	event_set_private(e, rep->private_data, cm_private_bytes(CM_REP), &e->base.param.conn.private_data_len);
	event_post(e);
}

static void rejected(struct id *id, int status, const struct cm_mad *rej) REQUIRES(cm.lock)
{
	struct event *e = event_make(id, RDMA_CM_EVENT_REJECTED, status);

	if (!e)
		return;
	e->prepare = prepare_rejected;
	e->base.param.conn.private_data = e->private_data;
	event_set_private(e, rej->private_data, cm_private_bytes(CM_REJ), &e->base.param.conn.private_data_len);
	event_post(e);
}

/* Handles a SIDR_REP. */
static void events_found(struct id *id, int status, const struct cm_mad *rep) REQUIRES(cm.lock)
{
	struct event *e = event_make(id, status ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_ESTABLISHED, status);
	struct rdma_ud_param *p;

	if (!e)
		return;
	p = &e->base.param.ud;
	p->private_data = e->private_data;
	p->ah_attr = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = PORT,
		.grh = {.dgid = id->address.remote,
			.sgid_index = id->gid_index,
			.hop_limit = 64,
			.traffic_class = id->tos},
	};
	p->qp_num = rep->qpn;
	p->qkey = rep->qkey;
	event_set_private(e, rep->private_data, cm_private_bytes(CM_SIDR_REP), &p->private_data_len);
	event_post(e);
}

static void told(void *user, enum cm_event event, int status, const struct cm_mad *mad)
{
	/* events without data */
	static const enum rdma_cm_event_type plain[] = {
		[CM_EVENT_ESTABLISHED] = RDMA_CM_EVENT_ESTABLISHED,
		[CM_EVENT_UNREACHABLE] = RDMA_CM_EVENT_UNREACHABLE,
		[CM_EVENT_DISCONNECTED] = RDMA_CM_EVENT_DISCONNECTED,
		[CM_EVENT_TIMEWAIT_EXIT] = RDMA_CM_EVENT_TIMEWAIT_EXIT,
	};
	struct id *id = user;
	struct event *e;

	lock_assert_held(&cm.lock);
	if (id->unclaimed) /* as in the kernel: before the accept, `context` is the listener's, and the accept call
			      fails */
		return;
	if (event == CM_EVENT_REPLIED)
		events_replied(id, mad);
	else if (event == CM_EVENT_REJECTED)
		rejected(id, status, mad);
	else if (event == CM_EVENT_FOUND)
		events_found(id, status, mad);
	else if ((e = event_make(id, plain[event], status))) {
		e->prepare = event == CM_EVENT_DISCONNECTED ? prepare_disconnected : NULL;
		event_post(e);
	}
}

static enum ibv_qp_type type_of(const struct cm_mad *req)
{
	static const enum ibv_qp_type type[4] = {IBV_QPT_RC, IBV_QPT_UC, 0, 0};

	if (req->message == CM_SIDR_REQ)
		return IBV_QPT_UD;
	if (req->transport == 3 && req->extended_transport == 1)
		return IBV_QPT_XRC_RECV;
	return type[req->transport];
}

/* Copies the connection parameters of the peer's REQ to the id. */
static void events_take_over(struct id *id, const struct cm_mad *req)
{
	id->remote_qpn = req->qpn;
	id->remote_psn = req->psn;
	id->retry = req->retry;
	id->rnr_retry = req->rnr_retry;
	id->mtu = req->mtu;
	id->responder_resources = req->initiator_depth;
	id->initiator_depth = req->responder_resources;
	id->remote_ece = (struct ibv_ece){.vendor_id = req->vendor_id, .options = req->modifier};
	if (req->message == CM_REQ && req->primary.traffic_class)
		id->tos = req->primary.traffic_class;
}

static struct event *make_request(struct id *listener, struct id *id, const struct cm_mad *req)
{
	struct event *e = event_make(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	bool is_req = req->message == CM_REQ;

	if (!e)
		return NULL;
	e->prepare = prepare_request;
	e->request = id;
	e->base.id = &id->base;
	e->base.listen_id = &listener->base;
	if (is_req)
		set_conn(e, id, req);
	else
		e->base.param.ud.private_data = e->private_data;
	event_set_private(e, req->private_data + CM_IP_BYTES, cm_private_bytes(req->message) - CM_IP_BYTES,
			  is_req ? &e->base.param.conn.private_data_len : &e->base.param.ud.private_data_len);
	return e;
}

static int events_request(struct connection *c, const struct cm_mad *req, void **user)
{
	int no_such_service = req->message == CM_REQ ? (int)CM_REASON_INVALID_SERVICE : (int)CM_SIDR_UNSUPPORTED;
	struct id *listener, *id;
	struct event *e;
	struct cm_ip ip;

	lock_assert_held(&cm.lock);
	if (cm_ip_parse(&ip, req->private_data))
		return no_such_service;
	listener = listener_find(req->service, &ip.to);
	if (!listener)
		return -ENOENT;
	if (listener->base.qp_type != type_of(req))
		return no_such_service;
	if (!listener->backlog)
		return -EAGAIN;
	id = id_make((struct event_channel *)listener->base.channel, listener->base.context, listener->base.ps,
		     listener->base.qp_type);
	if (!id)
		return -ENOMEM;
	e = make_request(listener, id, req);
	if (!e) {
		id_discard(id);
		return -ENOMEM;
	}
	id->state = ID_CONNECTING;
	id->connection = c;
	id->unclaimed = true;
	id->address = c->address;
	id->qkey = listener->qkey;
	id->tos = listener->tos;
	events_take_over(id, req);
	gid_to_address(&ip.to, (uint16_t)req->service, &id->base.route.addr.src_storage);
	gid_to_address(&ip.from, ip.from_port, &id->base.route.addr.dst_storage);
	id_enlist(id);
	listener->backlog--;
	event_post(e);
	*user = id;
	return 0;
}

static bool met(const struct connection *c)
{
	lock_assert_held(&cm.lock);
	return liveness_watch(&c->address, c->remote_id >> ID_BITS, c->is_passive);
}

static void events_last_words(const struct connection *c, const uint8_t *mad)
{
	lock_assert_held(&cm.lock);
	guardian_keep(c, mad);
}

static void events_unanswered(const struct connection *c)
{
	lock_assert_held(&cm.lock);
	probe_send(&c->address, c->id);
}

const struct machine_ops events_ops = {
	.send = agent_send,
	.event = told,
	.request = events_request,
	.met = met,
	.last_words = events_last_words,
	.unanswered = events_unanswered,
	.deadline = agent_deadline,
};
