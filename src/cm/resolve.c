/* SPDX-License-Identifier: BSD-2-Clause */
/* Address resolution: from a destination address to the device on the route. */
#include "cm/resolve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm/address.h"
#include "cm/agent.h"
#include "cm/bind.h"
#include "cm/channel.h"
#include "cm/cm.h"
#include "cm/device.h"
#include "cm/id.h"
#include "cm/state.h"
#include "cm/tuned.h"
#include "fault/inject.h"
#include "link/netif.h"
#include "link/next_hop.h"
#include "device/device.h"
#include "device/front.h"
#include "verbs/context.h"

/* Gets the source address from the routing tables: the local address of a UDP socket that is connected to `to`.
 * *source is the destination on entry; if that is an address of this host, it is the source too. (A link-local
 * address needs its interface.) */
static int ask_routes(const struct sockaddr *to, union ibv_gid *source)
{
	struct sockaddr_storage destination = {0}, own;
	socklen_t size = sizeof(own);
	struct cm_device *d;
	int fd, err, index;

	err = address_is_link_local(source) ? -ENODEV : device_of_address(source, &d, &index);
	if (err != -ENODEV)
		return -err;
	err = 0;
	fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	memcpy(&destination, to, address_size(to));
	address_set_port((struct sockaddr *)&destination, 1); /* no packet goes there */
	if (connect(fd, (struct sockaddr *)&destination, address_size(to)) ||
	    getsockname(fd, (struct sockaddr *)&own, &size))
		err = errno;
	close(fd);
	return err ?: address_to_gid((struct sockaddr *)&own, source) ? err : EINVAL;
}

/* Checks for a route from the id's own address to `to`. 0 or an errno. (A link-local address needs no route.) */
static int route_from_id(const struct id *id, const struct sockaddr *to)
{
	struct sockaddr_storage destination = {0}, own;
	int fd, error = 0;

	if (address_is_link_local(&id->address.local) || address_is_link_local(&id->address.remote))
		return 0;
	fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	gid_to_address(&id->address.local, 0, &own);
	memcpy(&destination, to, address_size(to));
	address_set_port((struct sockaddr *)&destination, 1); /* no packet goes there */
	if (!bind(fd, (struct sockaddr *)&own, address_size((struct sockaddr *)&own)) &&
	    connect(fd, (struct sockaddr *)&destination, address_size(to)))
		error = errno;
	close(fd);
	return error;
}

/* Replaces a wildcard destination by this host. */
static void set_loopback(union ibv_gid *gid)
{
	bool is_ipv4 = address_is_ipv4(gid);

	*gid = (union ibv_gid){0};
	gid->raw[15] = 1;
	if (is_ipv4) {
		gid->raw[10] = gid->raw[11] = 0xff;
		gid->raw[12] = 127;
	}
}

static int bind_source(struct id *id, const struct sockaddr *source, const struct sockaddr *to)
{
	int error;

	if (!source || !source->sa_family)
		return 0;
	if (source->sa_family != to->sa_family)
		return EINVAL;
	error = id_bind(id, source);
	if (!error)
		id_advance(id, ID_IDLE, ID_BOUND);
	return error;
}

static void set_source(struct id *id, const union ibv_gid *source)
{
	id->address.local = *source;
	id_choose_port(id);
	gid_to_address(source, (uint16_t)id->service, &id->base.route.addr.src_storage);
}

struct wanted {
	bool is_ipv4;
	union ibv_gid gid;
};

static int take_first_address(struct cm_device *d, void *arg)
{
	struct wanted *w = arg;

	return device_first_gid(context_of(d->verbs)->device, w->is_ipv4, &w->gid) >= 0;
}

/* Replaces a loopback destination without a device of lo by the address that the id is bound to, or the first
 * address of a device. 0 or an errno. */
static int leave_loopback(struct id *id, const struct sockaddr *to, union ibv_gid *gid)
{
	struct wanted w = {.is_ipv4 = address_is_ipv4(gid)};
	struct cm_device *d;
	int index, err = gid_is_loopback(gid) ? device_of_address(gid, &d, &index) : 0;

	if (err != -ENODEV)
		return -err;
	if (id->device)
		*gid = id->address.local;
	else if (devices_each(take_first_address, &w) > 0)
		*gid = w.gid;
	gid_to_address(gid, address_port(to), &id->base.route.addr.dst_storage);
	return 0;
}

static int set_destination(struct id *id, const struct sockaddr *to, union ibv_gid *gid)
{
	struct sockaddr_storage *kept = &id->base.route.addr.dst_storage;
	int error;

	if (!address_to_gid(to, gid))
		return EINVAL;
	memcpy(kept, to, address_size(to));
	if (gid_is_any(gid)) {
		set_loopback(gid);
		gid_to_address(gid, address_port(to), kept);
	}
	error = leave_loopback(id, to, gid);
	lock_take(&cm.lock); /* `uroce stat` shows it */
	id->address.remote = *gid;
	lock_drop(&cm.lock);
	return error;
}

/* 0; an errno if there is no route; or -ENODEV if no device is on the route. */
static int cm_resolve(struct id *id, const struct sockaddr *to)
{
	union ibv_gid gid;
	int error = set_destination(id, to, &gid);

	if (error)
		return error;
	if (!id->device) {
		error = ask_routes(&id->base.route.addr.dst_addr, &gid);
		if (error)
			return error;
		set_source(id, &gid);
	} else if (address_is_ipv4(&id->address.local) != address_is_ipv4(&gid)) {
		return EINVAL;
	} else {
		error = route_from_id(id, &id->base.route.addr.dst_addr);
		if (error)
			return error;
	}
	error = id_set_device(id);
	return error == -ENODEV ? error : -error;
}

static void resolve_post(struct id *id, enum rdma_cm_event_type type, int status)
{
	lock_take(&cm.lock);
	event_post(event_make(id, type, status));
	lock_drop(&cm.lock);
}

/* ---- the neighbor (ARP, ND) on the route ---- */

static struct list resolving GUARDED_BY(cm.lock) = {&resolving, &resolving};

/* Guarded by cm.lock. */
static struct {
	struct cm_address address;
	uint64_t until;
} last_found GUARDED_BY(cm.lock);

/* 0 if the kernel knows the neighbor or needs none, else -errno of next_hop_look(). The usual address of this host
 * needs no query. */
static int cm_resolve_look(const struct id *id, uint64_t now) REQUIRES(cm.lock)
{
	const union ibv_gid *from = &id->address.local, *to = &id->address.remote;
	int err;

	if (!memcmp(from, to, sizeof(*from)))
		return 0;
	if (now < last_found.until && !memcmp(from, &last_found.address.local, sizeof(*from)) &&
	    !memcmp(to, &last_found.address.remote, sizeof(*to)))
		return 0;
	err = next_hop_look(context_of(id->device->verbs)->device->netif_index, from, to);
	if (err)
		return err;
	last_found.address = id->address;
	last_found.until = now + RESOLVE_LASTS;
	return 0;
}

static void resolved(struct id *id, int status) REQUIRES(cm.lock)
{
	list_remove(&id->resolving);
	id->state = status ? ID_BOUND : ID_ADDRESS_RESOLVED;
	event_post(event_make(id, status ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, status));
}

uint64_t resolve_look(uint64_t now)
{
	uint64_t next = NEVER;

	list_each_safe (l, &resolving) {
		struct id *id = container_of(l, struct id, resolving);

		if (now >= id->looked + id->pause) {
			id->looked = now;
			id->pause = min_of(2 * id->pause, (uint64_t)RESOLVE_LAST);
			if (cm_resolve_look(id, now) == 0) {
				resolved(id, 0);
				continue;
			}
		}
		if (now >= id->give_up)
			resolved(id, -ETIMEDOUT);
		else
			next = min_of(next, min_of(id->give_up, id->looked + id->pause));
	}
	return next;
}

static void wait_for_neighbor(struct id *id, uint32_t ms, uint64_t now) REQUIRES(cm.lock)
{
	id->state = ID_RESOLVING;
	id->looked = now;
	id->give_up = now + ms * MSEC;
	id->pause = RESOLVE_FIRST;
	list_append(&resolving, &id->resolving);
	agent_look_at(min_of(id->give_up, now + RESOLVE_FIRST));
}

/* Waits for the neighbor. An event reports success or the time-out. */
static void look_for_neighbor(struct id *id, uint32_t ms)
{
	uint64_t now = cm_now();
	bool there;

	lock_take(&cm.lock);
	there = cm_resolve_look(id, now) != -EAGAIN; /* errors other than EAGAIN do not delay the id */
	lock_drop(&cm.lock);
	there = there || agent_attach(&id->address.local); /* starts the agent, whose timer is needed */
	lock_take(&cm.lock);
	if (id->state != ID_LOST) { /* ID_LOST: error event posted already */
		if (there)
			resolved(id, 0);
		else
			wait_for_neighbor(id, ms, now);
	}
	lock_drop(&cm.lock);
}

PUBLIC int rdma_resolve_addr(struct rdma_cm_id *base, struct sockaddr *source, struct sockaddr *to, int timeout)
{
	struct id *id = id_of(base);
	enum id_state state = id_state_of(id);
	bool sync = id->sync;
	int error;

	if (inject_call(CALL_rdma_resolve_addr))
		return -1;
	if (!to || (state != ID_IDLE && state != ID_BOUND))
		return fail_minus(EINVAL);
	error = state == ID_IDLE ? bind_source(id, source, to) : 0;
	if (!error)
		error = cm_resolve(id, to);
	if (error > 0)
		return fail_minus(error);
	if (error)
		resolve_post(id, RDMA_CM_EVENT_ADDR_ERROR, error);
	else
		look_for_neighbor(id, (uint32_t)timeout);
	return id_complete(id, sync);
}

/* Makes the path record that a subnet manager would return. */
static int make_path(struct id *id)
{
	struct ibv_sa_path_rec *p = calloc(1, sizeof(*p));

	if (!p)
		return ENOMEM;
	p->sgid = id->address.local;
	p->dgid = id->address.remote;
	p->slid = p->dlid = htons(0xffff);
	p->hop_limit = 64;
	p->traffic_class = id->tos;
	p->reversible = 1;
	p->numb_path = 1;
	p->pkey = htons(0xffff);
	p->mtu_selector = p->rate_selector = p->packet_life_time_selector = 2; /* exactly */
	p->mtu = (uint8_t)device_mtu(id->device);
	p->packet_life_time = PACKET_LIFE;
	free(id->base.route.path_rec);
	id->base.route.path_rec = p;
	id->base.route.num_paths = 1;
	return 0;
}

int id_resolve_route(struct id *id)
{
	int error;

	if (id_state_of(id) != ID_ADDRESS_RESOLVED)
		return EINVAL;
	error = make_path(id);
	if (error)
		return error;
	id->address.traffic_class = id->tos;
	id_advance(id, ID_ADDRESS_RESOLVED, ID_ROUTE_RESOLVED);
	resolve_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

PUBLIC int rdma_resolve_route(struct rdma_cm_id *base, int timeout)
{
	struct id *id = id_of(base);
	bool sync = id->sync;
	int error;

	if (inject_call(CALL_rdma_resolve_route))
		return -1;
	error = id_resolve_route(id);
	return error ? fail_minus(error) : id_complete(id, sync);
}
