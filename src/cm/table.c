/* SPDX-License-Identifier: BSD-2-Clause */
/* Hash tables of connections. */
#include "cm/table.h"

#include <string.h>

#include "cm/comm_id.h"
#include "cm/state.h"

static uint32_t bucket(const union ibv_gid *gid, uint32_t number)
{
	uint64_t high, low;

	memcpy(&high, gid->raw, sizeof(high));
	memcpy(&low, gid->raw + 8, sizeof(low));
	return ((high ^ low ^ number) * 0x9e3779b97f4a7c15ull) >> 54;
}
static_assert(CM_BUCKETS == 1 << (64 - 54), "bucket()");

void connection_know(struct connection *c, uint32_t remote_id, uint32_t remote_qpn)
{
	struct machine *m = c->machine;

	if (remote_id && c->remote_id != remote_id) {
		list_remove(&c->remote);
		c->remote_id = remote_id;
		list_append(&m->by_remote[bucket(&c->address.remote, remote_id)], &c->remote);
		c->is_watched = m->ops->met && m->ops->met(c);
	}
	if (remote_qpn && !c->remote_qpn) {
		c->remote_qpn = remote_qpn;
		list_append(&m->by_qpn[bucket(&c->address.remote, remote_qpn)], &c->qpn);
	}
}

void connection_forget(struct connection *c)
{
	list_remove(&c->remote);
	list_remove(&c->qpn);
	c->remote_id = c->remote_qpn = 0;
}

struct connection *find_by_remote(struct machine *m, const struct cm_address *a, uint32_t remote_id)
{
	list_each (l, &m->by_remote[bucket(&a->remote, remote_id)]) {
		struct connection *c = container_of(l, struct connection, remote);

		if (c->remote_id == remote_id && machine_gid_equal(&c->address.remote, &a->remote))
			return c;
	}
	return NULL;
}

struct connection *find_by_qpn(struct machine *m, const struct cm_address *a, const struct cm_mad *req)
{
	list_each (l, &m->by_qpn[bucket(&a->remote, req->qpn)]) {
		struct connection *c = container_of(l, struct connection, qpn);

		if (c->remote_qpn == req->qpn && c->remote_guid == req->ca_guid &&
		    machine_gid_equal(&c->address.remote, &a->remote))
			return c;
	}
	return NULL;
}

struct connection *find_by_id(struct machine *m, uint32_t id)
{
	struct connection *c = pool_at(&m->connections, comm_id_index(m, id));

	return c && c->state != CM_FREE && c->id == id ? c : NULL;
}
