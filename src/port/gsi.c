/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/gsi.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/handover.h"
#include "host/introduction.h"
#include "host/services.h"
#include "host/slot.h"
#include "host/steering.h"
#include "link/netif.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "port/nearby.h"
#include "port/transmit.h"
#include "port/tuned.h"
#include "wire/icrc.h"

static _Atomic(const struct gsi_ops *) serving;

void gsi_serve(const struct gsi_ops *ops)
{
	atomic_store_explicit(&serving, ops, memory_order_release); /* pairs with gsi_receive() */
}

static struct loop *current(void)
{
	/* acquire pairs with the release in loop_get() */
	return atomic_load_explicit(&loop_current, memory_order_acquire);
}

uint16_t gsi_slot(void)
{
	struct loop *l = current();

	return l ? l->slot.number : 0;
}

bool gsi_is_here(const union ibv_gid *from, const union ibv_gid *to)
{
	return !memcmp(from, to, sizeof(*to)) || address_is_loopback(to) || netif_of_address(to);
}

int gsi_call(const union ibv_gid *from, const union ibv_gid *to, uint16_t slot)
{
	struct loop *l = current();
	int fd;

	if (!l || !l->local.on)
		return -ENOTCONN;
	fd = introduction_call(slot, NULL, NULL, NULL);
	/* checked last, as it takes longest: a process in this slot of another host has no connection here */
	if (fd >= 0 && !gsi_is_here(from, to)) {
		close(fd);
		fd = -ENOTCONN;
	}
	return fd;
}

static struct packet gsi_packet(uint32_t qpn)
{
	static _Atomic uint32_t count; /* relaxed: no receiver checks the PSN of a datagram */

	return (struct packet){
		.opcode = TRANSPORT_UD | OP_SEND_ONLY,
		.migrated = true,
		.pkey = PKEY_DEFAULT,
		.dest_qpn = qpn,
		.psn = psn(atomic_fetch_add_explicit(&count, 1, memory_order_relaxed)),
		.qkey = GSI_QKEY,
		.src_qpn = GSI_QPN,
		.length = MAD_BYTES,
	};
}

uint32_t gsi_encode(const union ibv_gid *from, const union ibv_gid *to, uint16_t port, const uint8_t mad[MAD_BYTES],
		    uint8_t out[GSI_DATAGRAM])
{
	struct packet p = gsi_packet(GSI_QPN);
	size_t n = packet_encode(&p, out);
	struct icrc_flow flow;

	memcpy(out + n, mad, MAD_BYTES);
	n += MAD_BYTES;
	icrc_flow_init(&flow, from->raw, to->raw, port, ROCE_PORT);
	icrc_put(out + n, icrc_start(&flow, 0, n + ICRC_BYTES, out, n));
	return n + ICRC_BYTES;
}

int gsi_send(const struct path *path, uint32_t qpn, const uint8_t mad[MAD_BYTES], uint16_t slot)
{
	struct port *port = path->port;
	struct packet p = gsi_packet(qpn);
	struct iovec iov = {(void *)mad, MAD_BYTES};
	struct link_tx tx = {
		.packet = &p,
		.iov = &iov,
		.iovs = 1,
		.dgid = &path->dgid,
		.sgid = &path->sgid,
		.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit,
		.flow_label = path->flow_label,
	};

	if (!port || loop_is_inert(port->loop))
		return -EINVAL;
	if (slot && !memcmp(&path->sgid, &path->dgid, sizeof(path->sgid)) && nearby_send_mad(port->loop, slot, &tx))
		return 0;
	return transmit(port->link, &tx, 1) ? 0 : -EAGAIN;
}

/* Ports come and go with `receive` held, as the caller has it. */
void gsi_answer(const struct gsi_mad *to, const uint8_t mad[MAD_BYTES], uint16_t slot)
{
	struct path path = {.sgid = *to->to, .dgid = *to->from, .hop_limit = 64};

	for (uint32_t i = 0; i < to->loop->ports && !path.port; i++)
		if (!memcmp(&to->loop->port[i]->link->gid, to->to, sizeof(*to->to)))
			path.port = to->loop->port[i];
	gsi_send(&path, to->src_qpn, mad, slot);
}

void gsi_spread(const struct gsi_mad *mad)
{
	static uint64_t since; /* with `receive` held, as by the caller */
	static uint32_t spread;
	struct loop *l = mad->loop;
	struct services *services = steering_services(&l->steering);
	uint64_t now = clock_now();
	uint16_t slots[SPREAD];
	uint32_t count;

	lock_by_token(&l->receive);
	if (now - since >= SPREADS * MSEC) {
		since = now;
		spread = 0;
	}
	if (mad->handed_over || !services || spread++ >= SPREADS)
		return;
	count = services_listeners(services, mad->to, slots, SPREAD);
	for (uint32_t i = 0; i < count; i++)
		if (slots[i] != l->slot.number)
			handover_add(&l->handover, slots[i], mad->packet, mad->from);
}

static bool is_mad(const struct packet *p)
{
	return p->opcode == (TRANSPORT_UD | OP_SEND_ONLY) && p->qkey == GSI_QKEY && p->length == MAD_BYTES &&
	       (p->pkey & 0x7fff) == (PKEY_DEFAULT & 0x7fff);
}

uint16_t gsi_receive(struct loop *l, const struct packet *p, const union ibv_gid *from, bool handed_over)
{
	const struct gsi_ops *ops = atomic_load_explicit(&serving, memory_order_acquire); /* pairs with gsi_serve() */
	struct gsi_mad mad = {.bytes = p->payload,
			      .from = from,
			      .src_qpn = p->src_qpn,
			      .loop = l,
			      .packet = p,
			      .handed_over = handed_over};
	union ibv_gid to;
	uint16_t slot;

	if (!ops || !is_mad(p))
		return 0;
	memcpy(&to, p->to, sizeof(to));
	mad.to = &to;
	slot = handed_over ? l->slot.number : ops->owner(&mad);
	if (slot != l->slot.number)
		return slot;
	ops->receive(&mad);
	return 0;
}

/* ---- services ---- */

/* Steers requests for the service to this process, at each address that it uses now. Programs of later addresses learn
 * the service when their ports join. */
static void listen_for(struct loop *l, uint64_t service)
{
	steering_listen(&l->steering, service, true);
	for (uint32_t i = 0; i < l->ports; i++)
		if (!l->port[i]->netif)
			steering_renew(&l->port[i]->steered);
}

int gsi_claim(const union ibv_gid *address, uint64_t service, enum gsi_claim kind)
{
	struct loop *l = loop_hold();
	int err = -ENODEV;

	if (l) {
		bool offered = l->steering.service >= 0;
		struct services *services;
		int lock = steering_enter(&l->steering, &services);

		err = lock < 0 ? lock : services_claim(services, l->slot.number, address, service, kind, slot_is_alive);
		if (!err && kind == GSI_LISTENS)
			listen_for(l, service);
		steering_leave(lock);
		if (!err && !offered)
			err = helper_start(l) ?: helper_serve(l);
	}
	loop_release();
	return err;
}

void gsi_release(const union ibv_gid *address, uint64_t service)
{
	struct loop *l = loop_hold();
	struct services *services;
	int lock = l ? steering_enter(&l->steering, &services) : -1;

	if (lock >= 0) {
		services_release(services, l->slot.number, address, service);
		steering_listen(&l->steering, service, false);
	}
	steering_leave(lock);
	loop_release();
}

static bool is_alive(uint16_t slot)
{
	return slot == gsi_slot() || slot_is_alive(slot);
}

static bool is_near(uint16_t slot)
{
	/* relaxed: nearby_send_mad() checks again */
	return atomic_load_explicit(&current()->local.near[slot], memory_order_relaxed);
}

uint16_t gsi_near_owner(const union ibv_gid *to, uint64_t service)
{
	struct loop *l = current();
	struct services *services = l && l->local.on ? steering_services(&l->steering) : NULL;

	return services ? services_owner(services, to, service, is_near) : 0;
}

uint16_t gsi_owner(const union ibv_gid *to, uint64_t service)
{
	struct loop *l = current();
	struct services *services = l ? steering_services(&l->steering) : NULL;

	return services ? services_owner(services, to, service, is_alive) : 0;
}
