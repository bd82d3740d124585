/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/dest.h"

#include <stdlib.h>
#include <unistd.h>

#include "rsocket/waiter.h"

static struct bucket *bucket_of(struct datagram *d, const struct name *name)
{
	uint32_t sum = name->port;

	for (size_t i = 0; i < sizeof(name->ip); i++)
		sum = sum * 31 + name->ip[i];
	return &d->buckets[(sum ^ sum >> 16) % BUCKETS];
}

static void drop_dest(struct bucket *b, struct dest *dest)
{
	if (dest->ah)
		ibv_destroy_ah(dest->ah);
	list_remove(&dest->link);
	b->count--;
	free(dest);
}

/* The address that a datagram to that name is sent from. 0 or -errno. */
static int own_address(struct rsocket *rs, const struct name *to, struct name *own)
{
	struct sockaddr_storage ss;
	socklen_t size = sizeof(ss), length = name_put(to, rs->domain, &ss);
	uint16_t port;
	int fd, err = 0;

	if (getsockname(rs->fd, (struct sockaddr *)&ss, &size) || name_get(own, (struct sockaddr *)&ss, size))
		return -errno;
	if (!name_is_any(own))
		return 0;
	port = own->port;
	fd = socket(rs->domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	name_put(to, rs->domain, &ss);
	size = sizeof(ss);
	if (connect(fd, (struct sockaddr *)&ss, length) || getsockname(fd, (struct sockaddr *)&ss, &size))
		err = -errno;
	close(fd);
	if (!err)
		err = name_get(own, (struct sockaddr *)&ss, size);
	own->port = port;
	return err;
}

int dest_local(struct rsocket *rs, const struct name *own, struct local **to)
{
	int err;

	list_each (l, &rs->datagram->locals) {
		*to = container_of(l, struct local, link);
		if (name_is(&(*to)->name, own))
			return 0;
	}
	err = local_make(rs, own, to);
	if (err)
		return err;
	list_append(&rs->datagram->locals, &(*to)->link);
	rsocket_wake(rs); /* a thread that sleeps has not armed this CQ */
	return 0;
}

/* 0 or -errno. */
static int make_dest(struct rsocket *rs, struct bucket *b, const struct name *name, struct dest **to) REQUIRES(rs->lock)
{
	struct local *local;
	struct name own;
	int err = own_address(rs, name, &own);

	if (!err)
		err = dest_local(rs, &own, &local);
	if (err)
		return err;
	*to = calloc(1, sizeof(**to));
	if (!*to)
		return -ENOMEM;
	(*to)->name = *name;
	(*to)->local = local;
	if (b->count == BUCKET_MAX)
		drop_dest(b, container_of(b->dests.next, struct dest, link));
	list_append(&b->dests, &(*to)->link);
	b->count++;
	return 0;
}

int dest_find(struct rsocket *rs, const struct name *name, struct dest **to)
{
	struct bucket *b = bucket_of(rs->datagram, name);

	list_each (l, &b->dests) {
		*to = container_of(l, struct dest, link);
		if (name_is(&(*to)->name, name))
			return 0;
	}
	return make_dest(rs, b, name, to);
}

void dest_forget_all(struct datagram *d)
{
	for (int i = 0; i < BUCKETS; i++)
		while (d->buckets[i].count)
			drop_dest(&d->buckets[i], container_of(d->buckets[i].dests.next, struct dest, link));
}
