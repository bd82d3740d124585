/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of librdmacm, in the process that has the end open. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "call.h"
#include "conform.h"

#define CM_QUEUE 16

static int destroy_kept(void *object)
{
	struct rdma_cm_id *id = object;

	if (id->qp)
		rdma_destroy_qp(id);
	return rdma_destroy_id(id);
}

static int create(struct here *h, struct cm_call *c)
{
	h->channel = h->channel ?: rdma_create_event_channel();
	if (!h->channel)
		return errno ?: EIO;
	fcntl(h->channel->fd, F_SETFL, O_NONBLOCK);
	if (rdma_create_id(h->channel, &c->id, h, c->space))
		return errno;
	here_keep(h, c->id, (int (*)(void *))destroy_kept);
	return 0;
}

static int create_qp(struct here *h, struct cm_call *c)
{
	struct ibv_qp_init_attr init = {
		.qp_type = c->space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC,
		.cap = {.max_send_wr = CM_QUEUE, .max_recv_wr = CM_QUEUE, .max_send_sge = 1, .max_recv_sge = 1}};

	if (!c->id->verbs)
		return EINVAL;
	/* in a context of librdmacm's; they are destroyed with the id */
	if (rdma_create_qp(c->id, NULL, &init))
		return errno;
	c->qp = c->id->qp;
	c->scq = c->id->qp->send_cq;
	c->rcq = c->id->qp->recv_cq;
	return 0;
}

static int destroy_id(struct here *h, struct cm_call *c)
{
	for (unsigned i = 0; i < h->kept_count; i++) {
		if (h->kept[i].object != c->id)
			continue;
		memmove(&h->kept[i], &h->kept[i + 1], (--h->kept_count - i) * sizeof(h->kept[0]));
		break;
	}
	return destroy_kept(c->id) ? errno : 0;
}

static int next_event(struct here *h, struct cm_call *c)
{
	struct pollfd p = {.fd = h->channel ? h->channel->fd : -1, .events = POLLIN};
	struct rdma_cm_event *event;

	if (!h->channel || poll(&p, 1, c->value) < 1)
		return EAGAIN;
	if (rdma_get_cm_event(h->channel, &event))
		return errno;
	c->event = event->event;
	c->status = event->status;
	c->listener = event->listen_id;
	c->param = event->param.conn;
	c->data_length = event->param.conn.private_data_len;
	if (event->id->qp_type == IBV_QPT_UD) {
		c->ud = event->param.ud;
		c->data_length = event->param.ud.private_data_len;
	}
	if (c->data_length)
		memcpy(c->data,
		       event->id->qp_type == IBV_QPT_UD ? event->param.ud.private_data : event->param.conn.private_data,
		       (size_t)c->data_length);
	c->id = event->id;
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		here_keep(h, event->id, (int (*)(void *))destroy_kept);
	rdma_ack_cm_event(event);
	return 0;
}

static int call(struct here *h, struct cm_call *c)
{
	uint8_t byte;
	bool is_int;

	c->param.private_data = c->param.private_data_len ? c->data : NULL;
	switch (c->verb) {
	case CM_BIND:
		return rdma_bind_addr(c->id, (struct sockaddr *)&c->address);
	case CM_LISTEN:
		return rdma_listen(c->id, c->value);
	case CM_ADDRESS:
		return rdma_resolve_addr(c->id, NULL, (struct sockaddr *)&c->address, c->value);
	case CM_ROUTE:
		return rdma_resolve_route(c->id, c->value);
	case CM_CONNECT:
		return rdma_connect(c->id, &c->param);
	case CM_ACCEPT:
		return rdma_accept(c->id, &c->param);
	case CM_REJECT:
		return rdma_reject(c->id, c->param.private_data, c->param.private_data_len);
	case CM_ESTABLISH:
		return rdma_establish(c->id);
	case CM_JOIN:
		return rdma_join_multicast(c->id, (struct sockaddr *)&c->address, NULL);
	case CM_LEAVE:
		return rdma_leave_multicast(c->id, (struct sockaddr *)&c->address);
	case CM_DISCONNECT:
		return rdma_disconnect(c->id);
	case CM_OPTION:
		is_int = c->name == RDMA_OPTION_ID_REUSEADDR || c->name == RDMA_OPTION_ID_AFONLY;
		byte = (uint8_t)c->value;
		return is_int ? rdma_set_option(c->id, c->level, c->name, &c->value, sizeof(int))
			      : rdma_set_option(c->id, c->level, c->name, &byte, sizeof(byte));
	default:
		errno = EINVAL;
		return -1;
	}
}

int here_cm(struct here *h, struct cm_call *c)
{
	int error;

	errno = 0;
	switch (c->verb) {
	case CM_CREATE:
		return create(h, c);
	case CM_QP:
		return create_qp(h, c);
	case CM_DESTROY:
		return destroy_id(h, c);
	case CM_EVENT:
		return next_event(h, c);
	case CM_PORT:
		c->port = ntohs(rdma_get_src_port(c->id));
		return 0;
	default:
		error = call(h, c);
		return error ? errno ?: EIO : 0;
	}
}
