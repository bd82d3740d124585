/* Which descriptor is which rsocket. SPDX-License-Identifier: BSD-2-Clause */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "rsocket/rsocket.h"

#define CHUNK  1024
#define CHUNKS 1024
#define LOCKS  64

static _Atomic(_Atomic(struct rsocket *) *) chunks[CHUNKS]; /* made when first needed, and kept */
static struct lock locks[LOCKS]; /* by descriptor: held while a reference is taken, or an entry changes */
static struct lock make_lock;	 /* a leaf */

static struct lock *lock_of(int fd)
{
	return &locks[(unsigned)fd % LOCKS];
}

/* NULL: nothing is there, nor near. */
static _Atomic(struct rsocket *) *entry_of(int fd)
{
	_Atomic(struct rsocket *) *chunk;

	if ((unsigned)fd >= CHUNK * CHUNKS)
		return NULL;
	/* acquire pairs with the release in make_entry() */
	chunk = atomic_load_explicit(&chunks[fd / CHUNK], memory_order_acquire);
	return chunk ? &chunk[fd % CHUNK] : NULL;
}

static void forget(void)
{
	/* what the parent has is the parent's; the child may have some of its own */
	for (int i = 0; i < CHUNKS; i++) {
		_Atomic(struct rsocket *) *chunk = atomic_load_explicit(&chunks[i], memory_order_relaxed);

		for (int k = 0; chunk && k < CHUNK; k++)
			atomic_store_explicit(&chunk[k], NULL, memory_order_relaxed);
	}
	for (int i = 0; i < LOCKS; i++)
		locks[i] = (struct lock){0};
	make_lock = (struct lock){0};
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forget);
}

static _Atomic(struct rsocket *) *make_entry(int fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	_Atomic(struct rsocket *) *chunk;

	pthread_once(&once, watch_forks);
	if ((unsigned)fd >= CHUNK * CHUNKS)
		return NULL;
	lock_take(&make_lock);
	if (!atomic_load_explicit(&chunks[fd / CHUNK], memory_order_relaxed)) {
		chunk = calloc(CHUNK, sizeof(*chunk));
		atomic_store_explicit(&chunks[fd / CHUNK], chunk, memory_order_release); /* pairs with entry_of() */
	}
	lock_drop(&make_lock);
	return entry_of(fd);
}

struct rsocket *rsocket_make(int fd, int domain, int type)
{
	struct rsocket *rs = calloc(1, sizeof(*rs));

	if (!rs)
		return NULL;
	atomic_init(&rs->refs, 1);
	rs->fd = fd;
	rs->domain = domain;
	rs->type = type;
	list_init(&rs->waiters);
	list_init(&rs->accepted);
	list_init(&rs->epolls);
	list_init(&rs->queue);
	list_init(&rs->keeping);
	list_init(&rs->closing);
	list_init(&rs->stream.maps);
	list_init(&rs->stream.maps_pending);
	rs->sq_size = rs->rq_size = 384;
	rs->inline_size = 64;
	rs->tx_bytes = rs->rx_bytes = 256 << 10;
	rs->keep_idle = 7200;
	rs->keep_interval = 75;
	rs->keep_count = 9;
	return rs;
}

int rsocket_install(struct rsocket *rs)
{
	return rsocket_install_at(rs, rs->fd);
}

int rsocket_install_at(struct rsocket *rs, int fd)
{
	_Atomic(struct rsocket *) *entry = make_entry(fd);

	if (!entry)
		return -EMFILE;
	rsocket_ref(rs);
	atomic_fetch_add_explicit(&rs->handles, 1, memory_order_relaxed); /* the caller has a reference */
	lock_take(lock_of(fd));
	atomic_store_explicit(entry, rs, memory_order_relaxed); /* read under the lock, but for a look whether it is NULL */
	lock_drop(lock_of(fd));
	return 0;
}

void rsocket_ref(struct rsocket *rs)
{
	atomic_fetch_add_explicit(&rs->refs, 1, memory_order_relaxed); /* the caller has one already */
}

bool rsocket_try_ref(struct rsocket *rs)
{
	uint32_t refs = atomic_load_explicit(&rs->refs, memory_order_relaxed);

	while (refs && !atomic_compare_exchange_weak_explicit(&rs->refs, &refs, refs + 1, memory_order_relaxed,
							      memory_order_relaxed))
		;
	return refs;
}

struct rsocket *rsocket_get(int fd)
{
	_Atomic(struct rsocket *) *entry = entry_of(fd);
	struct rsocket *rs;

	if (!entry || !atomic_load_explicit(entry, memory_order_relaxed))
		return NULL;
	lock_take(lock_of(fd));
	rs = atomic_load_explicit(entry, memory_order_relaxed);
	if (rs)
		rsocket_ref(rs);
	lock_drop(lock_of(fd));
	return rs;
}

struct rsocket *rsocket_remove(int fd)
{
	_Atomic(struct rsocket *) *entry = entry_of(fd);
	struct rsocket *rs;

	if (!entry || !atomic_load_explicit(entry, memory_order_relaxed))
		return NULL;
	lock_take(lock_of(fd));
	rs = atomic_exchange_explicit(entry, NULL, memory_order_relaxed);
	lock_drop(lock_of(fd));
	/* acquire and release: who is last sees what the others did */
	if (!rs || atomic_fetch_sub_explicit(&rs->handles, 1, memory_order_acq_rel) == 1)
		return rs;
	rsocket_put(rs);
	return NULL;
}

void rsocket_put(struct rsocket *rs)
{
	/* release and acquire: whatever was done with it is done before it goes */
	if (atomic_fetch_sub_explicit(&rs->refs, 1, memory_order_acq_rel) != 1)
		return;
	iomap_forget(rs);
	service_forget(rs);
	endpoint_destroy(rs);
	datagram_free(rs);
	free(rs->route);
	free(rs);
}

void rsocket_each(void (*use)(struct rsocket *rs))
{
	for (int i = 0; i < CHUNKS; i++) {
		if (!atomic_load_explicit(&chunks[i], memory_order_acquire))
			continue;
		for (int fd = i * CHUNK; fd < (i + 1) * CHUNK; fd++) {
			struct rsocket *rs = rsocket_get(fd);

			if (!rs)
				continue;
			use(rs);
			rsocket_put(rs);
		}
	}
}
