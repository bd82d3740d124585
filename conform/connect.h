/* SPDX-License-Identifier: BSD-2-Clause */
/* Steps of a connection by librdmacm: a server at the far end, and a client at the near one. Each ends the check if it
 * fails. */
#ifndef CONFORM_CONNECT_H
#define CONFORM_CONNECT_H

#include "cm.h"

struct two {
	struct rdma_cm_id *listener, *client, *server;
	uint16_t port;
	struct qp a, b; /* of the client, of the server */
};

struct cm_call call_of(enum cm_verb verb, struct rdma_cm_id *id);
/* 0 or errno. */
int simple(struct end *e, enum cm_verb verb, struct rdma_cm_id *id);
int bind_at(struct end *e, struct rdma_cm_id *id, struct sockaddr_storage address);

/* The address of an end's GID. */
struct sockaddr_storage address_at(const struct end *e, uint16_t port);
struct rdma_cm_id *make_id(struct end *e, enum rdma_port_space space);
struct rdma_cm_id *listen_at(struct end *e, enum rdma_port_space space, uint16_t *port);
/* An id of the near end with its route. */
struct rdma_cm_id *resolve_at(enum rdma_port_space space, struct sockaddr_storage address);
struct qp queue_pair(struct end *e, struct rdma_cm_id *id, enum rdma_port_space space);
/* The next event; ends the check unless it is that one. */
struct cm_call event(struct end *e, enum rdma_cm_event_type expected);

/* About to connect. */
struct two make_two(enum rdma_port_space space);
struct cm_call connect_call(const struct two *t, uint8_t length);
/* As far as the request, which it returns. */
struct cm_call request(struct two *t, uint8_t length);
void accept_with(struct two *t, uint8_t length);
struct two make_connected(void);
void expect_in_error(struct qp *qp);

#endif
