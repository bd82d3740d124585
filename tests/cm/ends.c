/* SPDX-License-Identifier: BSD-2-Clause */
#include "ends.h"

#include <arpa/inet.h>
#include <string.h>

struct rdma_cm_id *ends_expect(struct ends *e, struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	bool is_ud;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	const void *data;
	size_t length;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	if (event->event != type)
		fail_msg("%s (%d) instead of %s", rdma_event_str(event->event), event->status, rdma_event_str(type));
	id = event->id;
	is_ud = id->qp_type == IBV_QPT_UD;
	e->status = event->status;
	e->told = event->param.conn;
	e->told_ud = event->param.ud;
	data = is_ud ? event->param.ud.private_data : event->param.conn.private_data;
	length = is_ud ? event->param.ud.private_data_len : event->param.conn.private_data_len;
	memset(e->data, 0, sizeof(e->data));
	if (data)
		memcpy(e->data, data, length);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	return id;
}

struct sockaddr_in ends_loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

void ends_open(struct ends *e, enum rdma_port_space ps)
{
	*e = (struct ends){.address = ends_loopback(0)};
	assert_non_null(e->server_channel = rdma_create_event_channel());
	assert_non_null(e->client_channel = rdma_create_event_channel());
	assert_int_equal(rdma_create_id(e->server_channel, &e->listener, e, ps), 0);
	assert_int_equal(rdma_create_id(e->client_channel, &e->client, e, ps), 0);
	assert_int_equal(rdma_bind_addr(e->listener, (struct sockaddr *)&e->address), 0);
	e->address.sin_port = rdma_get_src_port(e->listener);
	assert_int_not_equal(e->address.sin_port, 0);
	assert_int_equal(rdma_listen(e->listener, 0), 0);
}

void ends_close(struct ends *e)
{
	for (struct rdma_cm_id **id = &e->listener; id <= &e->client; id++) {
		if (!*id)
			continue;
		if ((*id)->qp)
			rdma_destroy_qp(*id);
		assert_int_equal(rdma_destroy_id(*id), 0);
	}
	rdma_destroy_event_channel(e->server_channel);
	rdma_destroy_event_channel(e->client_channel);
}

void ends_resolve(struct ends *e)
{
	assert_int_equal(rdma_resolve_addr(e->client, NULL, (struct sockaddr *)&e->address, 60000), 0);
	assert_ptr_equal(ends_expect(e, e->client_channel, RDMA_CM_EVENT_ADDR_RESOLVED), e->client);
	assert_int_equal(rdma_resolve_route(e->client, 60000), 0);
	ends_expect(e, e->client_channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}
