/* SPDX-License-Identifier: BSD-2-Clause */
/* The QP is attached to a group when the application fetches the join's event. */
#include "cm/multicast.h"

#include <stdlib.h>
#include <string.h>

#include "cm/address.h"
#include "cm/channel.h"
#include "cm/device.h"
#include "cm/id.h"
#include "cm/qp.h"
#include "fault/inject.h"
#include "link/netif.h"

struct group {
	struct list link GUARDED_BY(cm.lock); /* link of the id's list */
	union ibv_gid gid;
	struct sockaddr_storage address;
	void *context; /* context of the application */
	bool send_only;
	struct ibv_qp *qp; /* the attached QP; NULL: not attached yet */
};

#define MLID 0xc000 /* RoCE has no MLID; the kernel returns this value */

static struct group *multicast_find(struct id *id, const struct sockaddr *address) REQUIRES(cm.lock)
{
	list_each (l, &id->groups) {
		struct group *g = container_of(l, struct group, link);

		if (!memcmp(&g->address, address, address_size(address)))
			return g;
	}
	return NULL;
}

static void set_ud(struct event *e, const struct id *id, const struct group *g)
{
	e->base.param.ud = (struct rdma_ud_param){
		.private_data = g->context,
		.ah_attr = {.is_global = 1,
			    .dlid = MLID,
			    .port_num = PORT,
			    .grh = {.dgid = g->gid,
				    .sgid_index = id->gid_index,
				    .hop_limit = 1,
				    .traffic_class = id->tos}},
		.qp_num = 0xffffff,
		.qkey = id_qkey(id),
	};
}

/* Attaches the QP when the application fetches the event. If that fails, the event becomes MULTICAST_ERROR. */
static bool group_attach(struct event *e)
{
	struct group *g = e->group;
	struct ibv_qp *qp = e->id->base.qp;
	int error = qp && !g->send_only ? ibv_attach_mcast(qp, &g->gid, MLID) : 0;

	if (error) {
		e->base.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		e->base.status = -error;
	} else if (!g->send_only) {
		g->qp = qp;
	}
	return true;
}

static int multicast_join(struct id *id, const struct sockaddr *address, bool send_only, void *context)
{
	enum id_state state = id_state_of(id);
	struct group *g;
	union ibv_gid gid;
	struct event *e;

	if (state != ID_BOUND && state != ID_ADDRESS_RESOLVED) /* Linux core/cma.c: rdma_join_multicast() */
		return EINVAL;
	if (!id->device || !id_is_datagram(id) || !address_to_gid(address, &gid) || !address_is_multicast(&gid))
		return EINVAL;
	g = calloc(1, sizeof(*g));
	e = event_make(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	if (!g || !e) {
		free(g);
		free(e);
		return ENOMEM;
	}
	g->gid = gid;
	memcpy(&g->address, address, address_size(address));
	g->context = context;
	g->send_only = send_only;
	e->prepare = group_attach;
	e->group = g;
	set_ud(e, id, g);
	lock_take(&cm.lock);
	list_append(&id->groups, &g->link);
	event_post(e);
	lock_drop(&cm.lock);
	return 0;
}

/* ---- public functions ---- */

PUBLIC int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	uint32_t all = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	bool sync = id_of(id)->sync;
	int error;

	if (inject_call(CALL_rdma_join_multicast))
		return -1;
	if (attr->comp_mask & ~all)
		return fail_minus(ENOTSUP);
	if (attr->comp_mask != all || !attr->addr || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return fail_minus(EINVAL);
	error = multicast_join(id_of(id), attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
			       context);
	return error ? fail_minus(error) : id_complete(id_of(id), sync);
}

PUBLIC int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *address, void *context)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = address,
	};

	return rdma_join_multicast_ex(id, &attr, context);
}

static void multicast_leave(struct id *id, struct group *g)
{
	/* a QP that the application has destroyed has left all groups */
	if (g->qp && g->qp == id->base.qp)
		ibv_detach_mcast(g->qp, &g->gid, MLID);
	free(g);
}

PUBLIC int rdma_leave_multicast(struct rdma_cm_id *base, struct sockaddr *address)
{
	struct id *id = id_of(base);
	struct group *g;

	lock_take(&cm.lock);
	g = multicast_find(id, address);
	if (g) {
		list_remove(&g->link);
		events_drop_group(id, g);
	}
	lock_drop(&cm.lock);
	if (!g)
		return fail_minus(EADDRNOTAVAIL);
	multicast_leave(id, g);
	return 0;
}

void id_leave_groups(struct id *id)
{
	struct list *l;

	for (;;) {
		lock_take(&cm.lock);
		l = list_pop(&id->groups);
		if (l)
			events_drop_group(id, container_of(l, struct group, link));
		lock_drop(&cm.lock);
		if (!l)
			break;
		multicast_leave(id, container_of(l, struct group, link));
	}
}
