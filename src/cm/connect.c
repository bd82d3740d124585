/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_connect(), rdma_accept(), rdma_reject(), rdma_disconnect(). */
#include <string.h>

#include "cm/address.h"
#include "cm/agent.h"
#include "cm/calls.h"
#include "cm/channel.h"
#include "cm/cm.h"
#include "cm/connection.h"
#include "cm/device.h"
#include "cm/id.h"
#include "cm/qp.h"
#include "cm/state.h"
#include "fault/inject.h"

enum {
	RETRIES = 7, /* max of a 3-bit field; as RNR retry count, no limit */
};

/* ---- connection parameters of the application ---- */

/* Copies private data into the message, behind the header of annex A11. 0 or EINVAL. */
static int put_private(struct cm_mad *mad, enum cm_message message, size_t at, const void *data, uint32_t length)
{
	if (length > cm_private_bytes(message) - at)
		return EINVAL;
	if (length)
		memcpy(mad->private_data + at, data, length);
	return 0;
}

static int put_conn_private(const struct id *id, struct cm_mad *mad, enum cm_message message, size_t at,
			    const struct rdma_conn_param *p)
{
	if (p && p->private_data && p->private_data_len)
		return put_private(mad, message, at, p->private_data, p->private_data_len);
	return put_private(mad, message, at, id->connect, id->connect_length);
}

static int check_depth(const struct id *id, const struct rdma_conn_param *p)
{
	if (id->base.ps != RDMA_PS_TCP)
		return 0;
	if (!p)
		return id->base.qp ? 0 : EINVAL;
	if (p->responder_resources != RDMA_MAX_RESP_RES && p->responder_resources > id->device->responder_resources)
		return EINVAL;
	if (p->initiator_depth != RDMA_MAX_INIT_DEPTH && p->initiator_depth > id->device->initiator_depth)
		return EINVAL;
	return 0;
}

static void set_qp(struct id *id, const struct rdma_conn_param *p)
{
	const struct ibv_qp *qp = id->base.qp;

	id->qpn = qp ? qp->qp_num : p ? p->qp_num : 0;
	id->srq = qp ? qp->srq != NULL : p && p->srq;
}

static void put_ip(const struct id *id, struct cm_mad *mad)
{
	struct cm_ip ip = {.from = id->address.local,
			   .to = id->address.remote,
			   .from_port = address_port(&id->base.route.addr.src_addr)};

	cm_ip_encode(&ip, mad->private_data);
}

static uint64_t destination_service(const struct id *id)
{
	return (uint64_t)id->base.ps << 16 | address_port(&id->base.route.addr.dst_addr);
}

/* ---- connecting ---- */

static void put_transport(const struct id *id, struct cm_mad *req)
{
	req->transport = id->base.qp_type == IBV_QPT_UC ? 1 : id->base.qp_type == IBV_QPT_RC ? 0 : 3;
	req->extended_transport = req->transport == 3; /* XRC */
}

static void put_req(struct id *id, struct cm_mad *req, const struct rdma_conn_param *p)
{
	id->initiator_depth =
		p && p->initiator_depth != RDMA_MAX_INIT_DEPTH ? p->initiator_depth : id->device->initiator_depth;
	id->responder_resources = p && p->responder_resources != RDMA_MAX_RESP_RES ? p->responder_resources
										   : id->device->responder_resources;
	id->retry = p ? min_of(p->retry_count, RETRIES) : RETRIES;
	id->rnr_retry = p ? min_of(p->rnr_retry_count, RETRIES) : RETRIES;
	id->mtu = (uint8_t)device_mtu(id->device);
	*req = (struct cm_mad){
		.service = destination_service(id),
		.ca_guid = id->device->guid,
		.qpn = id->qpn,
		.psn = id->psn,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.remote_timeout = CM_RESPONSE_TIMEOUT,
		.local_timeout = CM_RESPONSE_TIMEOUT,
		.flow_control = p ? p->flow_control & 1 : 1,
		.retry = id->retry,
		.pkey = 0xffff,
		.mtu = id->mtu,
		.rnr_retry = id->rnr_retry,
		.max_retries = CM_RETRIES,
		.srq = id->srq,
		.primary = {.local_lid = 0xffff,
			    .remote_lid = 0xffff,
			    .local_gid = id->address.local,
			    .remote_gid = id->address.remote,
			    .traffic_class = id->tos,
			    .hop_limit = 64,
			    .ack_timeout = CM_ACK_TIMEOUT},
		.vendor_id = id->local_ece.vendor_id,
		.modifier = id->local_ece.options,
	};
	put_transport(id, req);
	put_ip(id, req);
}

/* Moves an id with a resolved route to ID_CONNECTING, once. */
static int connect_begin(struct id *id, struct cm_mad *mad,
			 int (*ask)(struct connection *c, struct cm_mad *mad, uint64_t now))
{
	int err;

	lock_take(&cm.lock);
	err = id->state == ID_ROUTE_RESOLVED ? 0 : -EINVAL;
	if (!err && !id->connection)
		id->connection = connection_open(&cm, &id->address, id);
	if (!err && !id->connection)
		err = -ENOMEM;
	if (!err)
		err = ask(id->connection, mad, cm_now());
	if (!err)
		id->state = ID_CONNECTING;
	lock_drop(&cm.lock);
	return -err;
}

static int connect_datagram(struct id *id, const struct rdma_conn_param *p)
{
	struct cm_mad mad = {.service = destination_service(id), .pkey = 0xffff};

	put_ip(id, &mad);
	return put_conn_private(id, &mad, CM_SIDR_REQ, CM_IP_BYTES, p) ?: connect_begin(id, &mad, connection_lookup);
}

static int connect_stream(struct id *id, const struct rdma_conn_param *p)
{
	struct cm_mad mad;
	int error = check_depth(id, p);

	if (error)
		return error;
	set_qp(id, p);
	put_req(id, &mad, p);
	return put_conn_private(id, &mad, CM_REQ, CM_IP_BYTES, p) ?: connect_begin(id, &mad, connection_request);
}

PUBLIC int rdma_connect(struct rdma_cm_id *base, struct rdma_conn_param *p)
{
	struct id *id = id_of(base);
	bool sync = id->sync;
	int error;

	if (inject_call(CALL_rdma_connect))
		return -1;
	if (id_state_of(id) != ID_ROUTE_RESOLVED)
		return fail_minus(EINVAL);
	error = -agent_attach(&id->address.local);
	if (!error)
		error = id_is_datagram(id) ? connect_datagram(id, p) : connect_stream(id, p);
	return error ? fail_minus(error) : id_complete(id, sync);
}

PUBLIC int rdma_establish(struct rdma_cm_id *base)
{
	struct id *id = id_of(base);
	int err = -EINVAL;

	id_guard(id);
	lock_take(&cm.lock);
	if (!base->qp && id->connection)
		err = connection_ready(id->connection, &(struct cm_mad){0}, cm_now());
	lock_drop(&cm.lock);
	return err ? fail_minus(-err) : 0;
}

/* ---- accepting ---- */

static int connect_answer(struct id *id, struct cm_mad *mad,
			  int (*say)(struct connection *c, struct cm_mad *mad, uint64_t now))
{
	int err = -EINVAL;

	lock_take(&cm.lock);
	if (id->connection)
		err = say(id->connection, mad, cm_now());
	lock_drop(&cm.lock);
	return -err;
}

/* 0 or an errno. */
static int reject(struct id *id, enum cm_reason reason, const void *data, uint8_t length)
{
	struct cm_mad mad = {0};
	int error;

	if (id_is_datagram(id)) {
		mad.answer = CM_SIDR_REJECT;
		error = put_private(&mad, CM_SIDR_REP, 0, data, length) ?: connect_answer(id, &mad, connection_answer);
	} else {
		mad.reason = reason;
		error = put_private(&mad, CM_REJ, 0, data, length) ?: connect_answer(id, &mad, connection_reject);
	}
	return error;
}

/* Copies the reply's private data. If it is too long, the request is rejected, as in the kernel, because the peer
 * waits for an answer. */
static int put_answer(struct id *id, struct cm_mad *rep, enum cm_message message, const struct rdma_conn_param *p)
{
	int error = put_conn_private(id, rep, message, 0, p);

	if (error)
		reject(id, CM_REASON_CONSUMER, NULL, 0);
	return error;
}

static void connect_limit(uint8_t *value, uint8_t most, bool asked, uint8_t wish)
{
	*value = asked ? wish : min_of(*value, most);
}

static int accept_stream(struct id *id, const struct rdma_conn_param *p)
{
	struct cm_mad rep;
	int error = check_depth(id, p);

	if (error)
		return error;
	connect_limit(&id->initiator_depth, id->device->initiator_depth, p && p->initiator_depth != RDMA_MAX_INIT_DEPTH,
		      p ? p->initiator_depth : 0);
	connect_limit(&id->responder_resources, id->device->responder_resources,
		      p && p->responder_resources != RDMA_MAX_RESP_RES, p ? p->responder_resources : 0);
	set_qp(id, p);
	rep = (struct cm_mad){
		.ca_guid = id->device->guid,
		.qpn = id->qpn,
		.psn = id->psn,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.ack_delay = 15, /* 134 ms, the kernel's value for software devices */
		.flow_control = p ? p->flow_control & 1 : 1,
		.rnr_retry = p ? min_of(p->rnr_retry_count, RETRIES) : RETRIES,
		.srq = id->srq,
		.vendor_id = id->local_ece.vendor_id,
		.modifier = id->local_ece.options,
	};
	error = put_answer(id, &rep, CM_REP, p) ?: id_qp_connect(id);
	if (!error) {
		id_guard(id);
		error = connect_answer(id, &rep, connection_accept);
	}
	if (error)
		id_qp_fail(id);
	return error;
}

static int accept_datagram(struct id *id, const struct rdma_conn_param *p)
{
	struct cm_mad rep;

	set_qp(id, p);
	rep = (struct cm_mad){.answer = CM_SIDR_VALID,
			      .qpn = id->qpn,
			      .service = (uint64_t)id->base.ps << 16 | address_port(&id->base.route.addr.src_addr),
			      .qkey = id_qkey(id)};
	return put_answer(id, &rep, CM_SIDR_REP, p) ?: connect_answer(id, &rep, connection_answer);
}

/* Sets `unclaimed`; returns the previous value. */
static bool set_unclaimed(struct id *id, bool unclaimed)
{
	bool before;

	lock_take(&cm.lock);
	before = id->unclaimed;
	id->unclaimed = unclaimed;
	lock_drop(&cm.lock);
	return before;
}

PUBLIC int rdma_accept(struct rdma_cm_id *base, struct rdma_conn_param *p)
{
	struct id *id = id_of(base);
	bool unclaimed, waits = id->sync && !id_is_datagram(id);
	int error;

	if (inject_call(CALL_rdma_accept))
		return -1;
	if (!id_has_connection(id))
		return fail_minus(EINVAL);
	unclaimed = set_unclaimed(id, false);
	error = id_is_datagram(id) ? accept_datagram(id, p) : accept_stream(id, p);
	if (error) {
		set_unclaimed(id, unclaimed);
		return fail_minus(error);
	}
	return id_complete(id, waits);
}

static int reject_as(struct rdma_cm_id *id, enum cm_reason reason, const void *data, uint8_t length)
{
	int error;

	if (inject_call(CALL_rdma_reject))
		return -1;
	error = reject(id_of(id), reason, data, length);
	return error ? fail_minus(error) : 0;
}

PUBLIC int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	return reject_as(id, CM_REASON_CONSUMER, data, length);
}

PUBLIC int rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	return reject_as(id, CM_REASON_VENDOR_OPTION, data, length);
}

/* Handles data that arrived before the RTU. */
PUBLIC int rdma_notify(struct rdma_cm_id *base, enum ibv_event_type event)
{
	struct id *id = id_of(base);
	int error = EINVAL;

	lock_take(&cm.lock);
	if (event == IBV_EVENT_COMM_EST && id->connection)
		error = id->connection->state == CM_ESTABLISHED ? 0 : -connection_established(id->connection);
	lock_drop(&cm.lock);
	return error ? fail_minus(error) : 0;
}

/* ---- disconnecting ---- */

PUBLIC int rdma_disconnect(struct rdma_cm_id *base)
{
	struct id *id = id_of(base);
	bool exists, ends = false, sync = id->sync;

	if (inject_call(CALL_rdma_disconnect))
		return -1;
	if (!id_has_connection(id))
		return fail_minus(EINVAL);
	id_qp_fail(id);
	lock_take(&cm.lock);
	exists = id->connection; /* NULL if the device was removed meanwhile, or the process is exiting */
	/* a connection that has ended already needs nothing */
	if (exists)
		ends = !connection_disconnect(id->connection, &(struct cm_mad){0}, cm_now());
	lock_drop(&cm.lock);
	if (!exists)
		return fail_minus(EINVAL);
	return ends ? id_complete(id, sync) : 0;
}
