// SPDX-License-Identifier: BSD-2-Clause
/* The ids and event channels of librdmacm, and their events: of all devices, as an id has one only later. */
#include <rdma/rdma_cma.h>

#include "check/lifetime.h"
#include "through/context.h"
#include "through/next.h"
#include "through/shadow.h"

static void made_id(struct rdma_cm_id *id, const struct rdma_event_channel *channel)
{
	struct shadow *s = through_checks() ? shadow_make(CHECK_ID, id) : NULL;

	if (!s)
		return;
	shadow_add(s);
	check_made(CHECK_ID, id, 0, channel);
}

/* It is about to be destroyed. */
static void gone_id(const struct rdma_cm_id *id)
{
	struct shadow *s = shadow_of(CHECK_ID, id);

	if (!s)
		return;
	shadow_await_acknowledged(s, "rdma_destroy_id()");
	check_gone(CHECK_ID, id);
	shadow_drop(s);
}

PUBLIC int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space ps)
{
	int error = NEXT(rdma_create_id, "RDMACM_1.0")(channel, id, context, ps);

	if (!error && through_is_of_program(CALLER))
		made_id(*id, channel);
	return error;
}

PUBLIC int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *address, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *attr)
{
	int error = NEXT(rdma_create_ep, "RDMACM_1.0")(id, address, pd, attr);

	if (!error && through_is_of_program(CALLER))
		made_id(*id, NULL);
	return error;
}

PUBLIC int rdma_get_request(struct rdma_cm_id *listener, struct rdma_cm_id **id)
{
	int error = NEXT(rdma_get_request, "RDMACM_1.0")(listener, id);

	if (!error && through_is_of_program(CALLER))
		made_id(*id, NULL);
	return error;
}

PUBLIC int rdma_destroy_id(struct rdma_cm_id *id)
{
	if (through_is_of_program(CALLER))
		gone_id(id);
	return NEXT(rdma_destroy_id, "RDMACM_1.0")(id);
}

PUBLIC void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (through_is_of_program(CALLER))
		gone_id(id);
	NEXT(rdma_destroy_ep, "RDMACM_1.0")(id);
}

PUBLIC int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	if (shadow_of(CHECK_ID, id) && through_is_of_program(CALLER))
		check_uses(CHECK_ID, id, channel);
	return NEXT(rdma_migrate_id, "RDMACM_1.0")(id, channel);
}

/* ---- events ---- */

PUBLIC struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel = NEXT(rdma_create_event_channel, "RDMACM_1.0")();

	if (channel && through_checks() && through_is_of_program(CALLER))
		check_made(CHECK_EVENT_CHANNEL, channel, 0);
	return channel;
}

PUBLIC void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	if (through_checks() && through_is_of_program(CALLER)) {
		check_orphaned(CHECK_EVENT_CHANNEL, channel);
		check_gone(CHECK_EVENT_CHANNEL, channel);
	}
	NEXT(rdma_destroy_event_channel, "RDMACM_1.0")(channel);
}

/* Of the id whose destruction waits for the acknowledgement. */
static struct shadow *shadow_of_event(const struct rdma_cm_event *event)
{
	return shadow_of(CHECK_ID, event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->listen_id : event->id);
}

PUBLIC int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	int error = NEXT(rdma_get_cm_event, "RDMACM_1.0")(channel, event);
	struct shadow *s;

	if (error || !through_is_of_program(CALLER))
		return error;
	if ((*event)->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		made_id((*event)->id, channel);
	s = shadow_of_event(*event);
	if (s)
		__atomic_add_fetch(&s->fetched, 1, __ATOMIC_RELAXED);
	return 0;
}

PUBLIC int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct shadow *s = event && through_is_of_program(CALLER) ? shadow_of_event(event) : NULL;

	if (s)
		__atomic_add_fetch(&s->acknowledged, 1, __ATOMIC_RELEASE); /* pairs with shadow_await_acknowledged() */
	return NEXT(rdma_ack_cm_event, "RDMACM_1.0")(event);
}
