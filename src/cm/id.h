/* SPDX-License-Identifier: BSD-2-Clause */
/* An rdma_cm_id, and the events about it. The application makes and destroys it; ids of incoming connections
 * are made when the request arrives, and belong to the application once it has fetched the event.
 *
 * What cm.lock does not guard is its user's: rdma_* functions on one id do not run at the same time,
 * but for those that wait for an event. */
#ifndef UROCE_ID_H
#define UROCE_ID_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "cm/agent.h"
#include "cm/device.h"
#include "verbs/front.h"

enum {
	PRIVATE_ROOM = 256,
	PACKET_LIFE = 16, /* 0.27 s, as the kernel has it for RoCE: half of CM_ACK_TIMEOUT */
};

/* What may be asked of an id, in this order as a rule. */
enum id_state {
	ID_IDLE,
	ID_BOUND, /* rdma_bind_addr() */
	ID_LISTENING,
	ID_RESOLVING, /* the local peer on the way there is being looked for */
	ID_ADDRESS_RESOLVED,
	ID_ROUTE_RESOLVED,
	ID_CONNECTING, /* also one that was asked for, and what comes after */
	ID_LOST,       /* its device is gone */
};

struct group;

struct event_channel {
	struct rdma_event_channel
		base; /* what the application holds: first. Under cm.lock; fd is -1 when it has been destroyed */
	struct list events GUARDED_BY(cm.lock);
	struct list retired GUARDED_BY(cm.lock); /* among those that have been destroyed */
	bool readable GUARDED_BY(cm.lock);	 /* the eventfd is */
	uint32_t waiters GUARDED_BY(cm.lock);	 /* threads in rdma_get_cm_event() */
	void (*notify)(void); /* in place of the eventfd, for our own use; called with cm.lock. Constant */
};

struct id {
	struct rdma_cm_id base;			   /* what the application holds: first */
	struct list all GUARDED_BY(cm.lock);	   /* among all ids */
	struct list listening GUARDED_BY(cm.lock); /* among those that listen */
	struct list bound;			   /* among those that have a port: guarded by bind.c's lock */
	enum id_state state GUARDED_BY(cm.lock);
	bool sync; /* no event channel of the application's: functions wait */

	struct connection *connection GUARDED_BY(cm.lock); /* NULL: none */
	struct cm_device *device;			   /* cm.lock for writing; NULL: not bound to one */
	/* of a request that has not been accepted: the application hears nothing of it */
	bool unclaimed GUARDED_BY(cm.lock);
	bool astray GUARDED_BY(cm.lock); /* the device has not got its address any more */
	uint8_t gid_index;
	struct cm_address address; /* meaningful with `device` */

	union ibv_gid port_address; /* of the port: an address, or any */
	uint64_t service;	    /* the port with its port space; 0: it has none */
	bool reuse, v6_only;
	uint32_t backlog GUARDED_BY(cm.lock); /* of a listener: requests that may still wait to be fetched */

	/* options */
	uint8_t tos, ack_timeout;
	bool has_ack_timeout;
	struct ibv_ece local_ece, remote_ece;

	/* the connection's parameters, both sides having spoken: the thread's that connects, then constant */
	uint32_t qpn, remote_qpn, qkey;
	/* Which PSN the peer is to begin with, as we tell it, and we, as it tells us. (IBTA's words allow the
	 * opposite as well; this is what kernels do.) */
	uint32_t psn, remote_psn;
	uint8_t responder_resources, initiator_depth, retry, rnr_retry, mtu;
	bool srq;
	bool failed; /* our QP could not follow: the application was told, and the rest is for us */

	/* of rdma_create_ep() */
	struct ibv_qp_init_attr *qp_attr; /* of the QPs of requests; NULL: the application makes them */
	struct ibv_pd *wanted_pd;
	void *connect;
	uint8_t connect_length;

	/* among those that are in this state, with when that began, or they looked last; ... */
	struct list resolving GUARDED_BY(cm.lock);
	uint64_t looked GUARDED_BY(cm.lock), give_up GUARDED_BY(cm.lock); /* ... and when it ends. ns */
	uint64_t pause GUARDED_BY(cm.lock);				  /* between looks. ns */

	struct list groups;				    /* multicast */
	struct rdma_addrinfo *resolved GUARDED_BY(cm.lock); /* by rdma_resolve_addrinfo(), not fetched yet */

	/* events handed out and given back; guarded by `mutex` */
	pthread_mutex_t mutex;
	pthread_cond_t acknowledged;
	uint32_t fetched, completed;
};

struct event {
	struct rdma_cm_event base;	      /* what the application holds: first */
	struct list link GUARDED_BY(cm.lock); /* in its channel */
	struct id *id;			      /* whose channel it goes to, and who waits for it to be acknowledged */
	struct id *request;		      /* of a CONNECT_REQUEST: the new id */
	bool replied;			      /* CONNECT_RESPONSE: the QP has to follow when it is fetched */
	struct group *group;		      /* multicast: the join */
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
/* NULL: no memory. */
struct id *id_make(struct event_channel *channel, void *context, enum rdma_port_space ps, enum ibv_qp_type type);
/* Whether it was in that state; then it is in the other. */
bool id_advance(struct id *id, enum id_state from, enum id_state to) EXCLUDES(cm.lock);
enum id_state id_state_of(struct id *id) EXCLUDES(cm.lock);
bool id_has_connection(struct id *id) EXCLUDES(cm.lock);
void id_enlist(struct id *id) REQUIRES(cm.lock);
/* rdma_create_id() without a channel. */
int id_create(struct rdma_cm_id **out, enum rdma_port_space ps, enum ibv_qp_type type) EXCLUDES(cm.lock);
/* Of one that the application has not got. */
void id_discard(struct id *id) REQUIRES(cm.lock);
/* Binds it to the device of id->address.local. 0 or -ENODEV. */
int id_set_device(struct id *id) EXCLUDES(cm.lock);
/* Undoes that. */
void id_unset_device(struct id *id) EXCLUDES(cm.lock);
void id_count_fetched(struct id *id);
/* Waits until all fetched events of the id have been acknowledged. */
void id_await_acknowledged(struct id *id);

/* channel.c */
/* NULL: no memory, then the event is lost, as the kernel loses it. `private_data` may be NULL. */
struct event *event_make(struct id *id, enum rdma_cm_event_type type, int status);
void event_set_private(struct event *e, const void *data, size_t length, uint8_t *told);
void event_post(struct event *e) REQUIRES(cm.lock);
/* Drops what is queued about the id, or about its group. */
void events_drop(struct id *id) REQUIRES(cm.lock);
void events_drop_group(struct id *id, const struct group *group) REQUIRES(cm.lock);
/* To another channel: what is queued goes along. */
void events_move(struct id *id, struct event_channel *to) REQUIRES(cm.lock);
/* In an id without a channel: waits for the event of what has just been asked for. Returns what the function
 * returns. */
int id_complete(struct id *id) EXCLUDES(cm.lock);

/* events.c */
/* When the application fetches it: what is left to do. False: it is not for the application. */
bool event_prepare(struct event *e) EXCLUDES(cm.lock);

/* bind.c */
/* To an address of this host, or any; and to a port, chosen if it is 0. 0 or an errno. */
int id_bind(struct id *id, const struct sockaddr *address) EXCLUDES(cm.lock);
/* Whether others that agree may have its port too, if it has one already or not. 0 or an errno. */
int id_share_port(struct id *id, bool share) EXCLUDES(cm.lock);
/* Gives the port back. */
void id_unbind(struct id *id) EXCLUDES(cm.lock);
void listener_remove(struct id *id) REQUIRES(cm.lock);
struct id *listener_find(uint64_t service, const union ibv_gid *to) REQUIRES(cm.lock);
/* Addresses may have come, which some listen at as they do at all: attaches them, later. Never blocks. */
void listeners_look_around(void) EXCLUDES(cm.lock);
/* Chooses a port, unless it has one: for one that connects. */
void id_choose_port(struct id *id) EXCLUDES(cm.lock);

/* address.c */
bool address_to_gid(const struct sockaddr *a, union ibv_gid *gid); /* false: no address family that we know */
void gid_to_address(const union ibv_gid *gid, uint16_t port, struct sockaddr_storage *a);
uint16_t address_port(const struct sockaddr *a);
void address_set_port(struct sockaddr *a, uint16_t port);
bool gid_is_any(const union ibv_gid *gid);
bool gid_is_loopback(const union ibv_gid *gid);
socklen_t address_size(const struct sockaddr *a);

/* qp.c */
/* The QP follows the connection: to RTS, or to ERR. 0 or an errno. Nothing without a QP. */
int id_qp_connect(struct id *id) EXCLUDES(cm.lock);
void id_qp_fail(struct id *id) EXCLUDES(cm.lock);
uint32_t id_qkey(const struct id *id);

/* resolve.c */
/* Asks for the route, in place of rdma_resolve_route(). 0 or an errno; the event is on its way. */
int id_resolve_route(struct id *id) EXCLUDES(cm.lock);

/* multicast.c */
/* The QP joins the group of the event, which becomes MULTICAST_ERROR if that fails. */
void group_attach(struct event *e);
void id_leave_groups(struct id *id) EXCLUDES(cm.lock);

#endif
