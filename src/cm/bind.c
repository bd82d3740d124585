/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules for ids of this process that want the same port. The processes of one user share a table of ports
 * (port/gsi.h). */
#include "cm/bind.h"

#include <netinet/in.h>
#include <string.h>

#include "base/config.h"
#include "base/thread.h"
#include "cm/address.h"
#include "cm/agent.h"
#include "cm/cm.h"
#include "cm/device.h"
#include "cm/id.h"
#include "cm/tuned.h"
#include "fault/inject.h"
#include "host/services.h"
#include "link/netif.h"
#include "port/gsi.h"

#define EPHEMERAL_FIRST 32768
#define EPHEMERAL_LAST	60999

static struct lock ports_lock = LOCK_RANKED(CM_PORTS); /* held while the shared table is changed */
static struct list bound GUARDED_BY(ports_lock) = {&bound, &bound};
static struct list listeners GUARDED_BY(cm.lock) = {&listeners, &listeners};

static bool same_gid(const union ibv_gid *a, const union ibv_gid *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* True if a message to `to` is for `address`, which may be the wildcard. */
static bool bind_covers(const union ibv_gid *address, const union ibv_gid *to, bool v6_only)
{
	if (same_gid(address, to))
		return true;
	if (!gid_is_any(address))
		return false;
	return address_is_ipv4(address) ? address_is_ipv4(to) : !(v6_only && address_is_ipv4(to));
}

static bool overlap(const struct id *a, const struct id *b)
{
	return bind_covers(&a->port_address, &b->port_address, a->v6_only) ||
	       bind_covers(&b->port_address, &a->port_address, b->v6_only);
}

static bool bind_listens(struct id *id)
{
	return id_state_of(id) == ID_LISTENING;
}

/* The error if another id of this process prevents this use of the port: as Linux, core/cma.c, cma_check_port(). */
static int port_taken(const struct id *id, bool to_listen) REQUIRES(ports_lock)
{
	list_each (l, &bound) {
		struct id *other = container_of(l, struct id, bound);

		if (other != id && other->service == id->service && overlap(other, id) &&
		    (to_listen || !id->reuse || !other->reuse || bind_listens(other)))
			return same_gid(&other->port_address, &id->port_address) && !gid_is_any(&id->port_address)
				       ? -EADDRINUSE
				       : -EADDRNOTAVAIL;
	}
	return 0;
}

/* Address under which the port is claimed in the shared table. */
static const union ibv_gid *claimed(const struct id *id)
{
	bool all_ipv6 = id->v6_only && gid_is_any(&id->port_address) && !address_is_ipv4(&id->port_address);

	return all_ipv6 ? &gsi_any_ipv6 : &id->port_address;
}

static int bind_claim(struct id *id, bool to_listen) REQUIRES(ports_lock)
{
	int err = port_taken(id, to_listen);

	return err ?: gsi_claim(claimed(id), id->service, to_listen ? GSI_LISTENS : id->reuse ? GSI_SHARED : GSI_BOUND);
}

static uint64_t service_of(const struct id *id, uint16_t port)
{
	return (uint64_t)id->base.ps << 16 | port;
}

static uint16_t random_port(void)
{
	return EPHEMERAL_FIRST + cm_random() % (EPHEMERAL_LAST - EPHEMERAL_FIRST + 1);
}

static int claim_some_port(struct id *id) REQUIRES(ports_lock)
{
	int err = -EADDRINUSE;

	for (int i = 0; i < PORT_TRIES && (err == -EADDRINUSE || err == -EADDRNOTAVAIL); i++) {
		id->service = service_of(id, random_port());
		err = bind_claim(id, false);
	}
	return err == -EADDRINUSE ? -EADDRNOTAVAIL : err;
}

static int take_port(struct id *id, uint16_t port)
{
	int err;

	lock_take(&ports_lock);
	id->service = service_of(id, port);
	err = port ? bind_claim(id, false) : claim_some_port(id);
	if (err)
		id->service = 0;
	else
		list_append(&bound, &id->bound);
	lock_drop(&ports_lock);
	return err;
}

int id_share_port(struct id *id, bool share)
{
	int err = 0;

	lock_take(&ports_lock);
	id->reuse = share;
	if (!list_empty(&id->bound))
		err = bind_claim(id, false);
	lock_drop(&ports_lock);
	return -err;
}

void id_unbind(struct id *id)
{
	bool shared = false;

	lock_take(&ports_lock);
	if (!list_empty(&id->bound)) {
		list_remove(&id->bound);
		list_each (l, &bound) {
			struct id *other = container_of(l, struct id, bound);

			shared |= other->service == id->service && same_gid(claimed(other), claimed(id));
		}
		if (!shared)
			gsi_release(claimed(id), id->service);
	}
	lock_drop(&ports_lock);
}

/* Port numbers that only appear in our messages are not claimed in the shared table, as no peer can connect to them. */
void id_choose_port(struct id *id)
{
	if (!id->service)
		id->service = service_of(id, random_port());
}

static const union ibv_gid any_ipv6, any_ipv4 = {.raw = {[10] = 0xff, [11] = 0xff}};

static int count_device(struct cm_device *d, void *arg)
{
	++*(uint32_t *)arg;
	return 0;
}

/* Opens all devices for the wildcard, which must not get requests by some of them only. 0 or an errno. */
static int choose_all(void)
{
	uint32_t count = 0;
	int err = devices_each(count_device, &count);

	return -err ?: count ? 0 : ENODEV;
}

/* True with UROCE_LOOPBACK=device: ids that are bound to a loopback address show a device, as programs that are
 * tested on one machine expect. */
static bool loopback_names_device(void)
{
	return config_enum(CONFIG_LOOPBACK) == 1;
}

static int name_device(struct cm_device *d, void *arg)
{
	struct id *id = arg;

	id->base.verbs = d->verbs;
	id->base.pd = d->pd;
	id->base.port_num = PORT;
	return 1;
}

/* The kernel treats loopback addresses as the wildcard, and sets no device. Here they belong to the device of lo, if
 * any, but the id shows it only with UROCE_LOOPBACK=device: libfabric binds to loopback and uses the device that it
 * then finds, or else all. */
static int choose_device(struct id *id, union ibv_gid *gid)
{
	int err;

	if (gid_is_any(gid))
		return choose_all();
	id->address.local = *gid;
	err = id_set_device(id);
	if (!err && gid_is_loopback(gid) && !loopback_names_device()) {
		id->base.verbs = NULL;
		id->base.pd = NULL;
	}
	if (!err)
		return 0;
	id->address.local = (union ibv_gid){0};
	if (err != -ENODEV)
		return -err;
	if (!gid_is_loopback(gid))
		return EADDRNOTAVAIL;
	*gid = address_is_ipv4(gid) ? any_ipv4 : any_ipv6;
	if (loopback_names_device())
		devices_each(name_device, id); /* the first device, as for an id that connects there */
	return choose_all();
}

/* Requires an interface for a link-local address, and that it has the address: rdma_translate_ip() and
 * cma_acquire_dev_by_src_ip() of Linux. If two interfaces have the same address, only the first is supported. */
static int check_scope(const struct sockaddr *address, const union ibv_gid *gid)
{
	uint32_t scope;

	if (!address_is_link_local(gid))
		return 0;
	scope = ((const struct sockaddr_in6 *)address)->sin6_scope_id;
	if (!scope)
		return EINVAL;
	return scope == (uint32_t)netif_of_address(gid) ? 0 : ENODEV;
}

int id_bind(struct id *id, const struct sockaddr *address)
{
	union ibv_gid gid;
	int err;

	if (!address_to_gid(address, &gid))
		return EINVAL;
	err = check_scope(address, &gid);
	if (!err)
		err = choose_device(id, &gid);
	if (err)
		return err;
	id->port_address = gid;
	err = take_port(id, address_port(address));
	if (err) {
		id_unset_device(id);
		return -err;
	}
	memcpy(&id->base.route.addr.src_storage, address, address_size(address));
	id->base.route.addr.dst_addr.sa_family =
		address->sa_family; /* as in the kernel: the family is set, the address is empty */
	address_set_port(&id->base.route.addr.src_addr, (uint16_t)id->service);
	return 0;
}

PUBLIC int rdma_bind_addr(struct rdma_cm_id *base, struct sockaddr *address)
{
	struct id *id = id_of(base);
	int error;

	if (inject_call(CALL_rdma_bind_addr))
		return -1;
	if (!address || id_state_of(id) != ID_IDLE)
		return fail_minus(EINVAL);
	error = id_bind(id, address);
	if (error)
		return fail_minus(error);
	id_advance(id, ID_IDLE, ID_BOUND);
	return 0;
}

/* ---- listening ---- */

struct attaching {
	const struct cm_device *device;
	const union ibv_gid *any;
	bool v6_only;
	uint32_t done;
	int error; /* the last error */
};

static int attach_address(const union ibv_gid *gid, void *arg)
{
	struct attaching *a = arg;
	int err;

	if (!bind_covers(a->any, gid, a->v6_only))
		return 0;
	err = agent_attach_of(gid, a->device);
	if (err)
		a->error = err;
	else
		a->done++;
	return 0;
}

static int attach_device(struct cm_device *d, void *arg)
{
	struct attaching *a = arg;

	a->device = d;
	return device_each_address(d, attach_address, arg);
}

/* Attaches every address possible for a wildcard listener: the kernel's rxe may use one. */
static int bind_attach(const struct id *id)
{
	struct attaching a = {.any = &id->port_address, .v6_only = id->v6_only, .error = -ENODEV};
	int err;

	if (!gid_is_any(&id->port_address))
		return agent_attach(&id->port_address);
	err = devices_each(attach_device, &a);
	return err ?: a.done ? 0 : a.error;
}

/* ---- addresses that are added later ---- */

static _Atomic bool looks; /* a thread will check for new addresses */

static bool has_listener(const union ibv_gid *gid) EXCLUDES(cm.lock)
{
	bool any = false;

	lock_take(&cm.lock);
	list_each (l, &listeners) {
		struct id *id = container_of(l, struct id, listening);

		any |= bind_covers(&id->port_address, gid, id->v6_only);
	}
	lock_drop(&cm.lock);
	return any;
}

static int attach_if_wanted(const union ibv_gid *gid, void *arg)
{
	if (has_listener(gid))
		agent_attach_of(gid, arg);
	return 0;
}

static int look_at_device(struct cm_device *d, void *arg)
{
	return device_each_address(d, attach_if_wanted, d);
}

static void *bind_look_around(void *arg)
{
	/* seq_cst, as the exchange below: a change from now on starts another thread */
	atomic_store_explicit(&looks, false, memory_order_seq_cst);
	devices_each(look_at_device, NULL);
	return NULL;
}

/* Starts a thread: opening devices and attaching addresses may block, and needs locks that the caller holds. */
static void start_looking(void)
{
	if (thread_start(bind_look_around, NULL))
		atomic_store_explicit(&looks, false, memory_order_seq_cst); /* the next change tries again */
}

void listeners_look_around(void)
{
	bool wanted = false;

	lock_take(&cm.lock);
	list_each (l, &listeners)
		wanted |= gid_is_any(&container_of(l, struct id, listening)->port_address);
	lock_drop(&cm.lock);
	if (wanted && !atomic_exchange_explicit(&looks, true, memory_order_seq_cst))
		start_looking();
}

static int enlist(struct id *id, int backlog)
{
	int err;

	lock_take(&ports_lock);
	err = bind_claim(id, true);
	if (!err) {
		lock_take(&cm.lock);
		id->state = ID_LISTENING;
		id->backlog = backlog <= 0 || backlog > BACKLOG_MAX ? BACKLOG_MAX : (uint32_t)backlog;
		list_append(&listeners, &id->listening);
		lock_drop(&cm.lock);
	}
	lock_drop(&ports_lock);
	return err;
}

static void delist(struct id *id)
{
	lock_take(&cm.lock);
	listener_remove(id);
	id->state = ID_BOUND;
	lock_drop(&cm.lock);
}

PUBLIC int rdma_listen(struct rdma_cm_id *base, int backlog)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct id *id = id_of(base);
	int err;

	if (inject_call(CALL_rdma_listen))
		return -1;
	if (id_state_of(id) == ID_IDLE && rdma_bind_addr(base, (struct sockaddr *)&any))
		return -1;
	if (id_state_of(id) != ID_BOUND)
		return fail_minus(EINVAL);
	err = enlist(id, backlog);
	if (err)
		return fail_minus(-err);
	/* before the addresses are attached, so that the first request finds the listener */
	err = bind_attach(id);
	if (err) {
		delist(id);
		return fail_minus(-err);
	}
	return 0;
}

void ports_forget(void)
{
	atomic_store_explicit(&looks, false, memory_order_relaxed);
	while (list_pop(&bound) || list_pop(&listeners))
		;
}

void listener_remove(struct id *id)
{
	list_remove(&id->listening);
}

struct id *listener_find(uint64_t service, const union ibv_gid *to)
{
	struct id *any = NULL;

	list_each (l, &listeners) {
		struct id *id = container_of(l, struct id, listening);

		if (id->service != service)
			continue;
		if (same_gid(&id->port_address, to))
			return id;
		if (bind_covers(&id->port_address, to, id->v6_only))
			any = id;
	}
	return any;
}
