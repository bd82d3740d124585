/* SPDX-License-Identifier: BSD-2-Clause */
/* Options, the list of devices, and names of events. */
#include <stdlib.h>
#include <string.h>

#include "base/msan.h"
#include "cm/bind.h"
#include "cm/device.h"
#include "cm/id.h"
#include "cm/newer.h"
#include "cm/resolve.h"
#include "fault/inject.h"
#include "device/device.h"
#include "device/front.h"

/* ---- options ---- */

static int set_tos(struct id *id, const void *value)
{
	id->tos = *(const uint8_t *)value;
	return 0;
}

/* Shares the port of a bound id, which cannot be undone. */
static int set_reuse(struct id *id, const void *value)
{
	bool reuse = *(const int *)value;
	enum id_state state = id_state_of(id);

	if (reuse ? state == ID_LISTENING : state != ID_IDLE)
		return EINVAL;
	return id_share_port(id, reuse);
}

static int set_v6_only(struct id *id, const void *value)
{
	if (id_state_of(id) != ID_IDLE)
		return EINVAL;
	id->v6_only = *(const int *)value;
	return 0;
}

static int set_ack_timeout(struct id *id, const void *value)
{
	if (id_is_datagram(id) || *(const uint8_t *)value > 31)
		return EINVAL;
	id->ack_timeout = *(const uint8_t *)value;
	id->has_ack_timeout = true;
	return 0;
}

/* Resolves the route that the application gives. The value is ignored, as there is only one path. */
static int set_path(struct id *id, const void *value)
{
	return id_resolve_route(id);
}

#define ANY_SIZE 0 /* any size except 0 */

static const struct {
	int level, name;
	size_t size;
	int (*set)(struct id *id, const void *value);
} options[] = {
	{RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, sizeof(uint8_t), set_tos},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, sizeof(int), set_reuse},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, sizeof(int), set_v6_only},
	{RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, sizeof(uint8_t), set_ack_timeout},
	{RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, ANY_SIZE, set_path},
};

PUBLIC int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t size)
{
	if (inject_call(CALL_rdma_set_option))
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		int error;

		if (options[i].level != level || options[i].name != name)
			continue;
		error = value && (options[i].size ? size == options[i].size : size) ? options[i].set(id_of(id), value)
										    : EINVAL;
		return error ? fail_minus(error) : 0;
	}
	return fail_minus(ENOSYS);
}

/* ---- enhanced connection establishment: vendor-specific options, carried in messages ---- */

PUBLIC int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!ece || !id->verbs || id->qp)
		return fail_minus(EINVAL);
	if (!ece->vendor_id && ece->options)
		return fail_minus(EINVAL);
	id_of(id)->local_ece = (struct ibv_ece){.vendor_id = ece->vendor_id, .options = ece->options};
	return 0;
}

PUBLIC int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!ece || id->qp)
		return fail_minus(EINVAL);
	*ece = id_of(id)->remote_ece;
	msan_wrote(ece, sizeof(*ece));
	return 0;
}

/* ---- devices ---- */

struct gathering {
	struct ibv_context *list[DEVICE_LIMIT + 1];
	int count;
};

static int option_gather(struct cm_device *d, void *arg)
{
	struct gathering *g = arg;

	g->list[g->count++] = d->verbs;
	return 0;
}

PUBLIC struct ibv_context **rdma_get_devices(int *count)
{
	struct gathering *g = calloc(1, sizeof(*g));
	int err;

	if (count)
		*count = 0;
	msan_wrote(count, sizeof(*count));
	if (!g)
		return fail_null(ENOMEM);
	err = devices_each(option_gather, g);
	if (err || !g->count) {
		free(g);
		return fail_null(-err ?: ENODEV);
	}
	if (count)
		*count = g->count;
	return g->list; /* the list is its first member, so free() takes this pointer */
}

PUBLIC void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}

/* ---- names ---- */

PUBLIC const char *rdma_event_str(enum rdma_cm_event_type event)
{
#define NAME(event) [event] = #event
	static const char *const names[] = {
		NAME(RDMA_CM_EVENT_ADDR_RESOLVED),
		NAME(RDMA_CM_EVENT_ADDR_ERROR),
		NAME(RDMA_CM_EVENT_ROUTE_RESOLVED),
		NAME(RDMA_CM_EVENT_ROUTE_ERROR),
		NAME(RDMA_CM_EVENT_CONNECT_REQUEST),
		NAME(RDMA_CM_EVENT_CONNECT_RESPONSE),
		NAME(RDMA_CM_EVENT_CONNECT_ERROR),
		NAME(RDMA_CM_EVENT_UNREACHABLE),
		NAME(RDMA_CM_EVENT_REJECTED),
		NAME(RDMA_CM_EVENT_ESTABLISHED),
		NAME(RDMA_CM_EVENT_DISCONNECTED),
		NAME(RDMA_CM_EVENT_DEVICE_REMOVAL),
		NAME(RDMA_CM_EVENT_MULTICAST_JOIN),
		NAME(RDMA_CM_EVENT_MULTICAST_ERROR),
		NAME(RDMA_CM_EVENT_ADDR_CHANGE),
		NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT),
		[EVENT_ADDRINFO_RESOLVED] = "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
		[EVENT_ADDRINFO_ERROR] = "RDMA_CM_EVENT_ADDRINFO_ERROR",
		[EVENT_USER] = "RDMA_CM_EVENT_USER",
	};

	return (size_t)event < ARRAY_SIZE(names) ? names[event] : "UNKNOWN EVENT";
}
