/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_resolve_addrinfo(), rdma_query_addrinfo() and rdma_write_cm_event() (newer.h). */
#include "cm/newer.h"

#include <string.h>

#include "base/msan.h"
#include "cm/channel.h"
#include "cm/id.h"

static int newer_post(struct id *id, enum rdma_cm_event_type type, int status, uint64_t arg) REQUIRES(cm.lock)
{
	struct event *e = event_make(id, type, status);

	if (!e)
		return ENOMEM;
	memcpy(&e->base.param, &arg, sizeof(arg));
	event_post(e);
	return 0;
}

PUBLIC int rdma_write_cm_event(struct rdma_cm_id *base, enum rdma_cm_event_type event, int status, uint64_t arg)
{
	int error;

	if (!base || (int)event != EVENT_USER)
		return fail_minus(EINVAL);
	lock_take(&cm.lock);
	error = newer_post(id_of(base), event, status, arg);
	lock_drop(&cm.lock);
	return error ? fail_minus(error) : 0;
}

/* 0 or an errno. */
static int newer_keep(struct id *id, struct rdma_addrinfo *found) REQUIRES(cm.lock)
{
	int error = id->resolved ? EBUSY : newer_post(id, (enum rdma_cm_event_type)EVENT_ADDRINFO_RESOLVED, 0, 0);

	if (!error)
		id->resolved = found;
	return error;
}

PUBLIC int rdma_resolve_addrinfo(struct rdma_cm_id *base, const char *node, const char *service,
				 const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *found;
	int error;

	if (!base)
		return fail_minus(EINVAL);
	if (hints && (hints->ai_flags & FLAG_SA))
		return fail_minus(EOPNOTSUPP);
	if (rdma_getaddrinfo(node, service, hints, &found))
		return -1;
	lock_take(&cm.lock);
	error = newer_keep(id_of(base), found);
	lock_drop(&cm.lock);
	if (!error)
		return id_complete(id_of(base), id_of(base)->sync);
	rdma_freeaddrinfo(found);
	return fail_minus(error);
}

PUBLIC int rdma_query_addrinfo(struct rdma_cm_id *base, struct rdma_addrinfo **info)
{
	struct id *id = id_of(base);

	if (!base || !info)
		return fail_minus(EINVAL);
	lock_take(&cm.lock);
	*info = id->resolved;
	msan_wrote(info, sizeof(*info));
	id->resolved = NULL;
	lock_drop(&cm.lock);
	return *info ? 0 : fail_minus(ENOENT);
}
