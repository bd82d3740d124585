/* SPDX-License-Identifier: BSD-2-Clause */
/* What a hostile sender can reach: a whole process with connections, for fuzz targets. Two reliable queue pairs, A and
 * B, are connected to each other by UDP over loopback; so are two more by the connection manager; a listener, a UD
 * queue pair. Their memory lies between guards. kernel.h has the clock and the threads. */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel.h"
#include "base/clock.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "port/gsi.h"
#include "port/local_link.h"
#include "port/ports.h"
#include "port/receive.h"
#include "port/run.h"
#include "progress/poll.h"
#include "progress/wait.h"

enum {
	WORLD_A,
	WORLD_B,
	WORLD_UD,
	WORLD_QPS,

	WORLD_REGION = 4096,
	WORLD_RECEIVES = 8,
	WORLD_RECEIVE = 128, /* bytes */
	WORLD_INBOXES = WORLD_REGION / 2 / WORLD_RECEIVE,
	WORLD_QKEY = 0x11111111,
	WORLD_PSN = 100, /* of the first request of A and of B */
};

struct world {
	struct loop *loop;
	struct port *port; /* of 127.0.0.1 */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *open, *shut, *inbox; /* peers may access the first; receives go to the last */
	struct qp *qp[WORLD_QPS];
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener, *id[2]; /* the two ends */
	uint32_t completions;		     /* of receives, since world_renew() */
};

extern struct world world;

#define require(hazards)                                                              \
	do {                                                                          \
		if (!(hazards)) {                                                     \
			fprintf(stderr, "%s:%d: " #hazards "\n", __FILE__, __LINE__); \
			abort();                                                      \
		}                                                                     \
	} while (0)

/* Once. Then only the calling thread runs. */
void world_make(void);
/* A, B and UD as they were at first. */
void world_renew(void);
/* The library does what is to be done, until there is nothing more. */
void world_run(void);
/* A and B each send the other a message, which arrives whole. */
void world_require_connections(void);
/* The two ends that the connection manager made are connected; requests that have come are refused. */
void world_require_managed(void);
/* No byte outside the regions, nor in the one that nobody may access, has changed. */
void world_require_memory(void);

/* Another queue pair; to INIT with receives, from any state; to RTS. */
struct qp *world_make_qp(enum ibv_qp_type type);
void world_begin_again(struct qp *qp);
void world_connect(struct qp *qp, uint32_t peer);
void world_post_receive(struct qp *qp);
void world_post_send(struct qp *qp, enum ibv_wr_opcode opcode, uint32_t length, uint64_t address, uint32_t key);

/* Of a queue pair, what a packet that is not of its connection leaves as it is. */
struct picture {
	struct requester req;
	struct responder resp;
	enum ibv_qp_state state;
	uint32_t sends, receives, taken, failed;
};
void world_picture(struct picture *p, uint32_t qp);
/* `strictly`: all of it; else what the program and the peer see: a duplicate may be acknowledged again. */
bool world_is_same(const struct picture *before, uint32_t qp, bool strictly);

#endif
