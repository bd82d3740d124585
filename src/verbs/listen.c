/* SPDX-License-Identifier: BSD-2-Clause */
/* The addresses at which a context receives datagrams: see listen.h. */
#include "verbs/listen.h"

#include <stdlib.h>
#include <string.h>

#include "port/ports.h"

/* Binds one address; its port goes to *port. 0 or -errno. */
static int bind_address(struct context *c, const union ibv_gid *gid, struct port **port) REQUIRES(c->listen_lock)
{
	struct path *more;
	int error;

	for (uint32_t i = 0; i < c->listening; i++) {
		if (!memcmp(&c->listen[i].sgid, gid, sizeof(*gid))) {
			*port = c->listen[i].port;
			return 0;
		}
	}
	more = realloc(c->listen, (c->listening + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	c->listen = more;
	more[c->listening] = (struct path){.sgid = *gid};
	error = loop_attach(&more[c->listening]);
	if (!error)
		*port = more[c->listening++].port;
	return error;
}

static int bind_device(struct context *c) REQUIRES(c->listen_lock)
{
	int error = -EADDRNOTAVAIL;
	bool any = false;
	union ibv_gid gid;
	struct port *port;

	for (uint32_t i = 0; i < DEVICE_GIDS; i++) {
		if (!device_gid(c->device, i, &gid))
			continue;
		error = bind_address(c, &gid, &port);
		any |= !error;
	}
	return any ? 0 : error;
}

static void listen_release(struct context *c) REQUIRES(c->listen_lock)
{
	for (uint32_t i = 0; i < c->listening; i++)
		loop_detach(&c->listen[i]);
	free(c->listen);
	c->listen = NULL;
	c->listening = c->listeners = 0;
}

int listen_at(struct context *c, struct path *path)
{
	int error;

	lock_take(&c->listen_lock);
	error = bind_address(c, &path->sgid, &path->port);
	if (!error)
		c->listeners++;
	lock_drop(&c->listen_lock);
	return error;
}

int listen_everywhere(struct context *c)
{
	int error;

	lock_take(&c->listen_lock);
	error = bind_device(c);
	if (!error)
		c->listeners++;
	lock_drop(&c->listen_lock);
	return error;
}

void listen_leave(struct context *c)
{
	lock_take(&c->listen_lock);
	if (c->listeners && --c->listeners == 0)
		listen_release(c);
	lock_drop(&c->listen_lock);
}

void listen_end(struct context *c)
{
	lock_take(&c->listen_lock);
	listen_release(c);
	lock_drop(&c->listen_lock);
}
