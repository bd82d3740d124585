/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"

/* Memory of rsockets is kept for other rsockets, so rsocket_get() may read the count of one that is gone. It takes a
 * reference unless the count is 0, and then looks whether the table still has it. */

#define CHUNK  1024
#define CHUNKS 1024

static _Atomic(_Atomic(struct rsocket *) *) chunks[CHUNKS]; /* made when needed, never freed */
static struct lock make_lock = LOCK_RANKED(TABLE_MAKE);
static struct lock spare_lock = LOCK_RANKED(TABLE_SPARE);
static struct list spares GUARDED_BY(spare_lock) = {&spares, &spares}; /* through `queue`: memory for the next */

/* NULL: its chunk is not there. */
static _Atomic(struct rsocket *) *entry_of(int fd)
{
	_Atomic(struct rsocket *) *chunk;

	if ((unsigned)fd >= CHUNK * CHUNKS)
		return NULL;
	/* acquire pairs with the release in make_entry() */
	chunk = atomic_load_explicit(&chunks[fd / CHUNK], memory_order_acquire);
	return chunk ? &chunk[fd % CHUNK] : NULL;
}

static void table_forget(void)
{
	for (int i = 0; i < CHUNKS; i++) {
		_Atomic(struct rsocket *) *chunk = atomic_load_explicit(&chunks[i], memory_order_relaxed);

		for (int k = 0; chunk && k < CHUNK; k++)
			atomic_store_explicit(&chunk[k], NULL, memory_order_relaxed);
	}
	list_init(&spares);
}

static void table_watch_forks(void)
{
	static const struct fork_handlers handlers = {.in_child = table_forget};

	fork_watch(FORK_RSOCKET_TABLE, &handlers);
}

static _Atomic(struct rsocket *) *make_entry(int fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	_Atomic(struct rsocket *) *chunk;

	pthread_once(&once, table_watch_forks);
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

static struct rsocket *take_spare(void)
{
	struct list *l;

	lock_take(&spare_lock);
	l = list_pop(&spares);
	lock_drop(&spare_lock);
	return l ? container_of(l, struct rsocket, queue) : NULL;
}

static void give_spare(struct rsocket *rs)
{
	list_init(&rs->queue);
	lock_take(&spare_lock);
	list_append(&spares, &rs->queue);
	lock_drop(&spare_lock);
}

struct rsocket *rsocket_make(int fd, int domain, int type, void (*destroy)(struct rsocket *rs))
{
	struct rsocket *rs = take_spare() ?: calloc(1, sizeof(*rs));

	if (!rs)
		return NULL;
	lock_assert_unshared(&rs->lock);
	memset((char *)rs + sizeof(rs->refs), 0, sizeof(*rs) - sizeof(rs->refs)); /* rsocket_get() may read `refs` */
	lock_set_rank(&rs->wait_lock, RANK_RSOCKET_WAIT);
	lock_set_rank(&rs->lock, RANK_RSOCKET);
	rs->fd = fd;
	rs->domain = domain;
	rs->type = type;
	rs->destroy = destroy;
	list_init(&rs->waiters);
	list_init(&rs->accepted);
	list_init(&rs->epolls);
	list_init(&rs->queue);
	list_init(&rs->timed);
	list_init(&rs->closing);
	list_init(&rs->stream.maps);
	list_init(&rs->stream.maps_pending);
	rs->sq_size = rs->rq_size = 384;
	rs->inline_size = 64;
	rs->tx_bytes = rs->rx_bytes = 256 << 10;
	rs->keep_idle = 7200;
	rs->keep_interval = 75;
	rs->keep_count = 9;
	atomic_store_explicit(&rs->refs, 1, memory_order_release); /* pairs with rsocket_try_ref() */
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
	atomic_store_explicit(entry, rs, memory_order_release);		  /* pairs with rsocket_get() */
	return 0;
}

void rsocket_ref(struct rsocket *rs)
{
	atomic_fetch_add_explicit(&rs->refs, 1, memory_order_relaxed); /* the caller has one */
}

bool rsocket_try_ref(struct rsocket *rs)
{
	uint32_t refs = atomic_load_explicit(&rs->refs, memory_order_relaxed);

	/* acquire pairs with rsocket_make() */
	while (refs && !atomic_compare_exchange_weak_explicit(&rs->refs, &refs, refs + 1, memory_order_acquire,
							      memory_order_relaxed))
		;
	return refs;
}

struct rsocket *rsocket_get(int fd)
{
	_Atomic(struct rsocket *) *entry = entry_of(fd);
	struct rsocket *rs;

	/* acquire pairs with rsocket_install_at() */
	while (entry && (rs = atomic_load_explicit(entry, memory_order_acquire))) {
		if (!rsocket_try_ref(rs))
			continue;
		if (likely(atomic_load_explicit(entry, memory_order_acquire) == rs))
			return rs;
		rsocket_put(rs);
	}
	return NULL;
}

struct rsocket *rsocket_remove(int fd)
{
	_Atomic(struct rsocket *) *entry = entry_of(fd);
	struct rsocket *rs;

	if (!entry || !atomic_load_explicit(entry, memory_order_relaxed))
		return NULL;
	rs = atomic_exchange_explicit(entry, NULL, memory_order_acq_rel); /* pairs with rsocket_get() */
	/* acquire and release: the last one sees what the others did */
	if (!rs || atomic_fetch_sub_explicit(&rs->handles, 1, memory_order_acq_rel) == 1)
		return rs;
	rsocket_put(rs);
	return NULL;
}

void rsocket_put(struct rsocket *rs)
{
	/* release and acquire: all uses happen before `destroy` */
	if (atomic_fetch_sub_explicit(&rs->refs, 1, memory_order_acq_rel) != 1)
		return;
	rs->destroy(rs);
	give_spare(rs);
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
