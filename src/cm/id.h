/* SPDX-License-Identifier: BSD-2-Clause */
/* An rdma_cm_id. The application creates and destroys it. The id of an incoming connection is created
 * when the request arrives, and belongs to the application from when it fetches the event.
 *
 * Fields that cm.lock does not guard are the application's: rdma_* functions on one id must not run at the same time,
 * except those that wait for an event. */
#ifndef UROCE_CM_ID_H
#define UROCE_CM_ID_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "cm/event.h"
#include "cm/state.h"
#include "device/front.h"

/* The state of an id, which decides which calls are allowed. The usual order is: */
enum id_state {
	ID_IDLE,
	ID_BOUND, /* rdma_bind_addr() */
	ID_LISTENING,
	ID_RESOLVING, /* waiting for the neighbor (ARP, ND) on the route */
	ID_ADDRESS_RESOLVED,
	ID_ROUTE_RESOLVED,
	ID_CONNECTING, /* also an id of an incoming request; includes all states after */
	ID_LOST,       /* its device was removed */
};

struct id {
	struct rdma_cm_id base;			   /* the application's handle; must be first */
	struct list all GUARDED_BY(cm.lock);	   /* link of the list of all ids */
	struct list listening GUARDED_BY(cm.lock); /* link of the list of listeners */
	struct list bound;			   /* link of the list of ids with a port; guarded by bind.c's lock */
	enum id_state state GUARDED_BY(cm.lock);
	_Atomic(struct event *) spare; /* for event_make() without memory: a lost event would hang the program */
	bool sync;		       /* no event channel: functions wait */

	struct connection *connection GUARDED_BY(cm.lock); /* NULL: no connection */
	struct cm_device *device;			   /* written under cm.lock; NULL: not bound to a device */
	/* the application has not accepted the request: no events are posted */
	bool unclaimed GUARDED_BY(cm.lock);
	bool astray GUARDED_BY(cm.lock); /* the device no longer has the id's address */
	uint8_t gid_index;
	struct cm_address address; /* valid if `device` is set */

	union ibv_gid port_address; /* the address that the port is bound to; may be the wildcard */
	uint64_t service;	    /* the port and its port space; 0: no port */
	bool reuse, v6_only;
	uint32_t backlog GUARDED_BY(cm.lock); /* listener: max requests waiting to be fetched */

	/* options */
	uint8_t tos, ack_timeout;
	bool has_ack_timeout;
	struct ibv_ece local_ece, remote_ece;

	/* parameters of the connection; written by the connecting thread, constant once both sides have sent theirs */
	uint32_t qpn, remote_qpn, qkey;
	/* psn: the first PSN of the peer's packets, which we send to it. remote_psn: our first PSN, which the peer
	 * sends to us. (The text of IBTA can also be read the other way; this is what kernels do.) */
	uint32_t psn, remote_psn;
	uint8_t responder_resources, initiator_depth, retry, rnr_retry, mtu;
	bool srq;
	bool failed; /* our QP could not be moved to RTS: the application got CONNECT_ERROR, and gets no event when the
			connection ends */

	/* set by rdma_create_ep() */
	struct ibv_qp_init_attr *qp_attr; /* for the QPs of requests; NULL: the application creates them */
	struct ibv_pd *wanted_pd;
	void *connect;
	uint8_t connect_length;

	struct list resolving GUARDED_BY(cm.lock); /* link of the list of ids in ID_RESOLVING */
	uint64_t looked GUARDED_BY(cm.lock);	   /* ns: last check, or start of ID_RESOLVING */
	uint64_t give_up GUARDED_BY(cm.lock);	   /* ns: end of ID_RESOLVING */
	uint64_t pause GUARDED_BY(cm.lock);	   /* ns: time between two checks */

	struct list groups;				    /* multicast groups */
	struct rdma_addrinfo *resolved GUARDED_BY(cm.lock); /* result of rdma_resolve_addrinfo(), not fetched yet */

	pthread_mutex_t mutex;
	pthread_cond_t acknowledged;
	uint32_t fetched, completed; /* numbers of events fetched and acknowledged; guarded by `mutex` */
};

static inline struct id *id_of(struct rdma_cm_id *id)
{
	return (struct id *)id;
}

static inline bool id_is_datagram(const struct id *id)
{
	return id->base.qp_type == IBV_QPT_UD;
}

/* A new id, in no list. NULL without memory. */
struct id *id_make(struct event_channel *channel, void *context, enum rdma_port_space ps, enum ibv_qp_type type);
/* Starts the guardian before a connection is established (guardian.h). Blocks. */
void id_guard(struct id *id) EXCLUDES(cm.lock);
/* Moves the id from state `from` to `to`. False if in another state. */
bool id_advance(struct id *id, enum id_state from, enum id_state to) EXCLUDES(cm.lock);
/* State and connection, read under cm.lock. */
enum id_state id_state_of(struct id *id) EXCLUDES(cm.lock);
bool id_has_connection(struct id *id) EXCLUDES(cm.lock);
/* Adds the id to the list of all ids. */
void id_enlist(struct id *id) REQUIRES(cm.lock);
/* Calls use() for each id, with cm.lock held. */
void ids_each(void (*use)(struct id *id, void *arg), void *arg) EXCLUDES(cm.lock);
/* Frees an id that no list, event or other thread knows any more. */
void id_free(struct id *id);
/* Binds the id to the device of id->address.local. Returns as device_of_address(). */
int id_set_device(struct id *id) EXCLUDES(cm.lock);
/* Undoes id_set_device(). */
void id_unset_device(struct id *id) EXCLUDES(cm.lock);
/* Counts a fetched event. */
void id_count_fetched(struct id *id);
/* Blocks until all fetched events of the id are acknowledged. */
void id_await_acknowledged(struct id *id);

/* Releases all connections, at exit. */
void ids_release_all(void) REQUIRES(cm.lock);

/* Drops all connections, in a child after fork(). */
void ids_forget(void) REQUIRES(cm.lock);

#endif
