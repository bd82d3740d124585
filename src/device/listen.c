/* SPDX-License-Identifier: BSD-2-Clause */
/* Binding of a context's addresses. */
#include "device/listen.h"

#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "device/device.h"
#include "object/qp.h"
#include "port/ports.h"

/* Binds one address; its port goes to *port. 0 or -errno. */
static int bind_address(struct listen *l, const union ibv_gid *gid, struct port **port) REQUIRES(l->lock)
{
	struct path *more;
	int error;

	for (uint32_t i = 0; i < l->count; i++) {
		if (!memcmp(&l->paths[i].sgid, gid, sizeof(*gid))) {
			*port = l->paths[i].port;
			return 0;
		}
	}
	more = realloc(l->paths, (l->count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	l->paths = more;
	more[l->count] = (struct path){.sgid = *gid};
	error = loop_attach(&more[l->count]);
	if (!error)
		*port = more[l->count++].port;
	return error;
}

static int bind_device(struct listen *l) REQUIRES(l->lock)
{
	int error = -EADDRNOTAVAIL;
	bool any = false;
	union ibv_gid gid;
	struct port *port;

	for (uint32_t i = 0; i < DEVICE_GIDS; i++) {
		if (!device_gid(l->device, i, &gid))
			continue;
		error = bind_address(l, &gid, &port);
		any |= !error;
	}
	return any ? 0 : error;
}

static void listen_release(struct listen *l) REQUIRES(l->lock)
{
	for (uint32_t i = 0; i < l->count; i++)
		loop_detach(&l->paths[i]);
	free(l->paths);
	l->paths = NULL;
	l->count = l->users = 0;
}

int listen_at(struct listen *l, struct path *path)
{
	int error;

	lock_take(&l->lock);
	error = bind_address(l, &path->sgid, &path->port);
	if (!error)
		l->users++;
	lock_drop(&l->lock);
	return error;
}

int listen_everywhere(struct listen *l)
{
	int error;

	lock_take(&l->lock);
	error = bind_device(l);
	if (!error)
		l->users++;
	lock_drop(&l->lock);
	return error;
}

void listen_leave(struct listen *l)
{
	lock_take(&l->lock);
	if (l->users && --l->users == 0)
		listen_release(l);
	lock_drop(&l->lock);
}

void listen_end(struct listen *l)
{
	lock_take(&l->lock);
	listen_release(l);
	lock_drop(&l->lock);
}
