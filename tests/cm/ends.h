/* SPDX-License-Identifier: BSD-2-Clause */
/* The two ends of a connection by the rdma_* functions, in one process. */
#ifndef CM_ENDS_H
#define CM_ENDS_H

#include "cm/channel.h"
#include "cm/id.h" /* first: cmocka.h makes fail() a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Both ends of a connection, or of one that is to be. */
struct ends {
	struct rdma_event_channel *server_channel, *client_channel;
	struct rdma_cm_id *listener, *server, *client;
	struct sockaddr_in address;  /* where `listener` listens */
	struct rdma_conn_param told; /* of the last event ... */
	struct rdma_ud_param told_ud;
	uint8_t data[PRIVATE_ROOM];
	int status;
};

/* 127.0.0.1 */
struct sockaddr_in ends_loopback(uint16_t port);

/* `listener` listens there, at a port of its own choice; `client` is not bound. */
void ends_open(struct ends *e, enum rdma_port_space ps);
void ends_close(struct ends *e);

/* Resolves the address and the route of `client`. */
void ends_resolve(struct ends *e);

/* The next event of `channel` is of this type; keeps what it says. Returns its id. */
struct rdma_cm_id *ends_expect(struct ends *e, struct rdma_event_channel *channel, enum rdma_cm_event_type type);

#endif
