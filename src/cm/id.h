/* SPDX-License-Identifier: BSD-2-Clause */
/* An rdma_cm_id, and its events. The application creates and destroys it. The id of an incoming connection is created
 * when the request arrives, and belongs to the application from when it fetches the event.
 *
 * Fields that cm.lock does not guard are the application's: rdma_* functions on one id must not run at the same time,
 * except those that wait for an event. */
#ifndef UROCE_ID_H
#define UROCE_ID_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "cm/agent.h"
#include "cm/device.h"
#include "device/front.h"

enum {
	PRIVATE_ROOM = 256,
	PACKET_LIFE = 16, /* 0.27 s, the kernel's value for RoCE: half of CM_ACK_TIMEOUT */
};

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

struct group;

struct event_channel {
	struct rdma_event_channel base; /* the application's handle; must be first. Guarded by cm.lock; fd is -1 after
					   the channel is destroyed */
	struct list events GUARDED_BY(cm.lock);
	struct list retired GUARDED_BY(cm.lock); /* in the list of destroyed channels */
	bool readable GUARDED_BY(cm.lock);	 /* true if the eventfd is readable */
	uint32_t waiters GUARDED_BY(cm.lock);	 /* threads in rdma_get_cm_event() */
	void (*notify)(void); /* called in place of the eventfd, with cm.lock held; internal use. Constant */
};

struct id {
	struct rdma_cm_id base;			   /* the application's handle; must be first */
	struct list all GUARDED_BY(cm.lock);	   /* in the list of all ids */
	struct list listening GUARDED_BY(cm.lock); /* in the list of listeners */
	struct list bound;			   /* in the list of ids with a port; guarded by bind.c's lock */
	enum id_state state GUARDED_BY(cm.lock);
	_Atomic(struct event *)
		spare; /* for event_make() without memory: an event that is lost would hang the program */
	bool sync;     /* the application gave no event channel: functions wait */

	struct connection *connection GUARDED_BY(cm.lock); /* NULL: no connection */
	struct cm_device *device;			   /* written under cm.lock; NULL: not bound to a device */
	/* the id of a request that the application has not accepted: it gets no events for it */
	bool unclaimed GUARDED_BY(cm.lock);
	bool astray GUARDED_BY(cm.lock); /* the device does not have the id's address any more */
	uint8_t gid_index;
	struct cm_address address; /* valid if `device` is set */

	union ibv_gid port_address; /* the address that the port is bound to; may be the wildcard */
	uint64_t service;	    /* the port and its port space; 0: no port */
	bool reuse, v6_only;
	uint32_t backlog GUARDED_BY(cm.lock); /* listener: number of further requests that may wait to be fetched */

	/* options */
	uint8_t tos, ack_timeout;
	bool has_ack_timeout;
	struct ibv_ece local_ece, remote_ece;

	/* parameters of the connection. Written by the thread that connects, constant once both sides have sent theirs
	 */
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

	/* in the list of ids in ID_RESOLVING, with the start of that state or the time of the last check; */
	struct list resolving GUARDED_BY(cm.lock);
	uint64_t looked GUARDED_BY(cm.lock), give_up GUARDED_BY(cm.lock); /* the end of that state. ns */
	uint64_t pause GUARDED_BY(cm.lock);				  /* between two checks. ns */

	struct list groups;				    /* multicast groups */
	struct rdma_addrinfo *resolved GUARDED_BY(cm.lock); /* result of rdma_resolve_addrinfo(), not fetched yet */

	/* number of events fetched and acknowledged; guarded by `mutex` */
	pthread_mutex_t mutex;
	pthread_cond_t acknowledged;
	uint32_t fetched, completed;
};

struct event {
	struct rdma_cm_event base;	      /* the application's handle; must be first */
	struct list link GUARDED_BY(cm.lock); /* in the list of its channel */
	struct id *id;	     /* the event goes to this id's channel; destroying this id waits for its acknowledgement */
	struct id *request;  /* CONNECT_REQUEST: the new id */
	struct group *group; /* multicast: the join */
	uint8_t private_data[PRIVATE_ROOM];
};

static inline struct id *id_of(struct rdma_cm_id *id)
{
	return (struct id *)id;
}

static inline bool id_is_datagram(const struct id *id)
{
	return id->base.qp_type == IBV_QPT_UD;
}

/* id.c */
/* Returns NULL if there is no memory. */
struct id *id_make(struct event_channel *channel, void *context, enum rdma_port_space ps, enum ibv_qp_type type);
/* Before a connection is established: its peer will be told if this process ends (guardian.h). */
void id_guard(struct id *id) EXCLUDES(cm.lock);
/* If the id is in state `from`, moves it to `to` and returns true. */
bool id_advance(struct id *id, enum id_state from, enum id_state to) EXCLUDES(cm.lock);
enum id_state id_state_of(struct id *id) EXCLUDES(cm.lock);
bool id_has_connection(struct id *id) EXCLUDES(cm.lock);
void id_enlist(struct id *id) REQUIRES(cm.lock);
/* Calls use() for each id, with cm.lock held. */
void ids_each(void (*use)(struct id *id, void *arg), void *arg) EXCLUDES(cm.lock);
/* rdma_create_id() without a channel. */
int id_create(struct rdma_cm_id **out, enum rdma_port_space ps, enum ibv_qp_type type) EXCLUDES(cm.lock);
/* Frees an id that the application has not got. */
void id_discard(struct id *id) REQUIRES(cm.lock);
/* Binds the id to the device of id->address.local. 0, or as device_of_address(). */
int id_set_device(struct id *id) EXCLUDES(cm.lock);
/* Undoes id_set_device(). */
void id_unset_device(struct id *id) EXCLUDES(cm.lock);
void id_count_fetched(struct id *id);
/* Blocks until all fetched events of the id are acknowledged. */
void id_await_acknowledged(struct id *id);

/* channel.c */
/* NULL: no memory; then the event is lost, as in the kernel. `private_data` may be NULL. */
struct event *event_make(struct id *id, enum rdma_cm_event_type type, int status);
void event_set_private(struct event *e, const void *data, size_t length, uint8_t *told);
void event_post(struct event *e) REQUIRES(cm.lock);
/* Drops the queued events of the id, or of one of its groups. */
void events_drop(struct id *id) REQUIRES(cm.lock);
void events_drop_group(struct id *id, const struct group *group) REQUIRES(cm.lock);
/* rdma_get_cm_event(), for callers that no rule of faults refuses. */
int cm_get_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
/* Moves the id to another channel, with its queued events. */
void events_move(struct id *id, struct event_channel *to) REQUIRES(cm.lock);
/* For an id without a channel: waits for the event that completes the operation just started. Returns the return value
 * of the rdma_ function. */
int id_complete(struct id *id) EXCLUDES(cm.lock);

/* events.c */
/* Called when the application fetches the event: does the work that was deferred. False: the event is not for the
 * application. */
bool event_prepare(struct event *e) EXCLUDES(cm.lock);

/* bind.c */
/* Binds the id to an address of this host, or to the wildcard; and to a port, chosen if it is 0. 0 or an errno. */
int id_bind(struct id *id, const struct sockaddr *address) EXCLUDES(cm.lock);
/* Sets if other ids that allow sharing may use the same port. Allowed before and after the id gets a port. 0 or an
 * errno. */
int id_share_port(struct id *id, bool share) EXCLUDES(cm.lock);
/* Releases the port. */
void id_unbind(struct id *id) EXCLUDES(cm.lock);
void listener_remove(struct id *id) REQUIRES(cm.lock);
struct id *listener_find(uint64_t service, const union ibv_gid *to) REQUIRES(cm.lock);
/* Attaches new addresses on which wildcard listeners have to listen. The work is deferred to another thread. Never
 * blocks. */
void listeners_look_around(void) EXCLUDES(cm.lock);
/* Chooses a port for an id that connects, unless it has one. */
void id_choose_port(struct id *id) EXCLUDES(cm.lock);

/* address.c */
bool address_to_gid(const struct sockaddr *a, union ibv_gid *gid); /* false: unknown address family */
void gid_to_address(const union ibv_gid *gid, uint16_t port, struct sockaddr_storage *a);
uint16_t address_port(const struct sockaddr *a);
void address_set_port(struct sockaddr *a, uint16_t port);
bool gid_is_any(const union ibv_gid *gid);
bool gid_is_loopback(const union ibv_gid *gid);
socklen_t address_size(const struct sockaddr *a);

/* qp.c */
/* Moves the id's QP to RTS when the connection is made, or to ERR when it ends. 0 or an errno. Does nothing without a
 * QP. */
int id_qp_connect(struct id *id) EXCLUDES(cm.lock);
void id_qp_fail(struct id *id) EXCLUDES(cm.lock);
uint32_t id_qkey(const struct id *id);

/* resolve.c */
/* Resolves the route, in place of rdma_resolve_route(). 0 or an errno; the event is posted. */
int id_resolve_route(struct id *id) EXCLUDES(cm.lock);

/* multicast.c */
/* Attaches the QP to the group of the event. If that fails, the event becomes MULTICAST_ERROR. */
void group_attach(struct event *e);
void id_leave_groups(struct id *id) EXCLUDES(cm.lock);

#endif
