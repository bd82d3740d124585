/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of librdmacm at either end. */
#ifndef CONFORM_CM_H
#define CONFORM_CM_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "end.h"

#define CM_DATA 256

enum cm_verb {
	CM_CREATE,
	CM_BIND,
	CM_LISTEN,
	CM_ADDRESS,
	CM_ROUTE,
	CM_QP,
	CM_CONNECT,
	CM_ACCEPT,
	CM_REJECT,
	CM_ESTABLISH,
	CM_DISCONNECT,
	CM_DESTROY,
	CM_OPTION,
	CM_JOIN,
	CM_LEAVE,
	CM_PORT,
	CM_EVENT
};

struct cm_call {
	enum cm_verb verb;
	struct rdma_cm_id *id;
	enum rdma_port_space space;
	struct sockaddr_storage address;
	int level, name, value; /* of an option; value: a backlog, a time in ms */
	struct rdma_conn_param param;
	uint8_t data[CM_DATA]; /* private data of param, or of the event */
	/* results */
	enum rdma_cm_event_type event;
	int status, data_length;
	struct rdma_cm_id *listener;
	struct ibv_qp *qp;
	struct ibv_cq *scq, *rcq;
	struct rdma_ud_param ud;
	uint16_t port;
};

int cm_do(struct end *end, struct cm_call *call);

#endif
