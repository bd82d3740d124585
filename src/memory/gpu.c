/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/hooks.h"
#include "base/lock.h"
#include "memory/copy.h"
#include "memory/fault.h"
#include "memory/gpu_driver.h"

#define STAGING (4ul << 20) /* bytes of pinned memory for each context */

/* A context of a driver, as uroce uses it. It stays, as contexts do. */
struct gpu_lane {
	const struct gpu_driver *driver;
	void *context, *stream;
	char *staging;
	size_t used;  /* bytes of the staging memory that copies under way use */
	bool pending; /* writes are under way */
	struct gpu_lane *next;
};

struct gpu_memory {
	struct gpu_lane *lane;
	uint64_t start, length, serial;
};

static struct lock gpu_lock;
static struct gpu_lane *lanes GUARDED_BY(&gpu_lock);
static const struct gpu_driver *driver_here GUARDED_BY(&gpu_lock);
static _Atomic bool is_loaded, in_use, is_child; /* relaxed: they tell of no other data */

bool gpu_in_use(void)
{
	return atomic_load_explicit(&in_use, memory_order_relaxed);
}

bool gpu_is_loaded(void)
{
	return atomic_load_explicit(&is_loaded, memory_order_relaxed);
}

/* ---- fork ---- */

static void gpu_before_fork(void) ACQUIRE(gpu_lock)
{
	lock_take(&gpu_lock);
}

static void gpu_after_fork(void) RELEASE(gpu_lock)
{
	lock_drop(&gpu_lock);
}

/* Only a child whose parent has not used the driver can use it. */
static void gpu_in_child(void) RELEASE(gpu_lock)
{
	if (gpu_in_use())
		atomic_store_explicit(&is_child, true, memory_order_relaxed);
	lock_drop(&gpu_lock);
}

__attribute__((constructor)) static void gpu_watch_fork(void)
{
	static const struct fork_handlers handlers = {gpu_before_fork, gpu_after_fork, gpu_in_child};

	fork_watch(FORK_GPU, &handlers);
}

/* ---- the driver ---- */

static bool look_up(const struct gpu_driver *d, void *library)
{
	for (size_t i = 0; d->symbols[i]; i++) {
		d->functions[i] = dlsym(library, d->symbols[i]);
		if (!d->functions[i] && i < d->required)
			return false;
	}
	return true;
}

/* Ends a walk over what is loaded at a file whose name begins as that of the library. */
static int has_its_name(struct dl_phdr_info *info, size_t size, void *library)
{
	const char *end = strrchr(info->dlpi_name, '/');

	return !strncmp(end ? end + 1 : info->dlpi_name, library, strcspn(library, "."));
}

/* The library, if the program has loaded it. Else dlopen() would look in each folder for it, also with RTLD_NOLOAD:
 * hundreds of system calls. */
static void *find_loaded(const char *library)
{
	return dl_iterate_phdr(has_its_name, (void *)library) ? dlopen(library, RTLD_NOW | RTLD_NOLOAD) : NULL;
}

static bool bind_driver(const struct gpu_driver *d)
{
	for (size_t i = 0; d->libraries[i]; i++) {
		void *library = find_loaded(d->libraries[i]);

		if (library)
			return look_up(d, library); /* the library stays loaded */
	}
	return false;
}

static int read_adds(struct dl_phdr_info *info, size_t size, void *adds)
{
	*(unsigned long long *)adds = info->dlpi_adds;
	return 1;
}

/* True if the program has loaded a library since the last call: all else would be too much for each region. */
static bool has_loaded_more(void) REQUIRES(gpu_lock)
{
	static unsigned long long seen GUARDED_BY(&gpu_lock);
	unsigned long long now = 0, before = seen;

	dl_iterate_phdr(read_adds, &now);
	seen = now;
	return now != before;
}

/* The driver of the program; NULL: it has loaded none so far, or this is a child that cannot use it. */
static const struct gpu_driver *find_driver(void) REQUIRES(gpu_lock)
{
	static const struct gpu_driver *const drivers[] = {&gpu_cuda, &gpu_hip};

	/* relaxed: a child starts with one thread */
	if (atomic_load_explicit(&is_child, memory_order_relaxed))
		return NULL;
	if (driver_here || !has_loaded_more())
		return driver_here;
	for (size_t i = 0; i < ARRAY_SIZE(drivers) && !driver_here; i++)
		if (bind_driver(drivers[i])) {
			driver_here = drivers[i];
			atomic_store_explicit(&is_loaded, true, memory_order_relaxed);
		}
	return driver_here;
}

bool gpu_works(void)
{
	const struct gpu_driver *d;
	bool works;

	lock_take(&gpu_lock);
	d = find_driver();
	works = d && d->count() > 0;
	lock_drop(&gpu_lock);
	return works;
}

/* ---- lanes ---- */

/* With the context current. */
static struct gpu_lane *make_lane(const struct gpu_driver *d, void *context) REQUIRES(gpu_lock)
{
	struct gpu_lane *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct gpu_lane){.driver = d, .context = context, .next = lanes};
	l->staging = d->pinned(STAGING);
	if (!l->staging || !d->stream(&l->stream)) {
		free(l);
		return NULL;
	}
	lanes = l;
	return l;
}

/* With the context current. */
static struct gpu_lane *lane_of(const struct gpu_driver *d, void *context) REQUIRES(gpu_lock)
{
	struct gpu_lane *l;

	for (l = lanes; l; l = l->next)
		if (l->driver == d && l->context == context)
			return l;
	return make_lane(d, context);
}

/* With the context of the address current. */
static int find_within(const struct gpu_driver *d, void *context, struct gpu_memory **found, uint64_t address,
		       uint64_t length) REQUIRES(gpu_lock)
{
	struct gpu_address a;
	struct gpu_lane *l;

	if (!d->find(address, &a))
		return 0;
	if (address - a.start > a.length || length > a.length - (address - a.start))
		return -EFAULT;
	l = lane_of(d, context);
	*found = l ? malloc(sizeof(**found)) : NULL;
	if (!*found)
		return -ENOMEM;
	if (d->prepare)
		d->prepare(address);
	**found = (struct gpu_memory){l, a.start, a.length, a.serial};
	atomic_store_explicit(&in_use, true, memory_order_relaxed);
	return 0;
}

int gpu_find(struct gpu_memory **found, uint64_t address, uint64_t length)
{
	const struct gpu_driver *d;
	void *context, *before;
	int err = 0;

	*found = NULL;
	lock_take(&gpu_lock);
	d = find_driver();
	/* the thread may have no context, or another one */
	if (d && length && d->context(address, &context) && d->enter(context, &before)) {
		err = find_within(d, context, found, address, length);
		d->leave(before);
	}
	lock_drop(&gpu_lock);
	return err;
}

void gpu_release(struct gpu_memory *m)
{
	free(m);
}

/* ---- copies ---- */

/* Waits for all copies of the lane, whose context is current. */
static bool settle_lane(struct gpu_lane *l) REQUIRES(gpu_lock)
{
	l->used = 0;
	l->pending = false;
	return l->driver->wait(l->stream);
}

/* Staging memory for a copy, at most as much as there is: *length. */
static char *stage(struct gpu_lane *l, size_t *length) REQUIRES(gpu_lock)
{
	char *at;

	*length = min_of(*length, STAGING);
	if (STAGING - l->used < *length && !settle_lane(l))
		return NULL;
	at = l->staging + l->used;
	l->used += *length;
	return at;
}

/* Makes the context current, if the memory is still the allocation that was found. */
static bool enter(const struct gpu_memory *m, uint64_t at, size_t length, void **before) REQUIRES(gpu_lock)
{
	const struct gpu_driver *d = m->lane->driver;
	struct gpu_address a;

	/* relaxed: a child starts with one thread */
	if (atomic_load_explicit(&is_child, memory_order_relaxed) || at < m->start || length > m->length ||
	    at - m->start > m->length - length || !d->enter(m->lane->context, before))
		return false;
	if (d->find(at, &a) && a.serial == m->serial && a.start == m->start)
		return true;
	d->leave(*before);
	return false;
}

/* With the context current. */
static bool read_pieces(struct gpu_lane *l, char *to, uint64_t at, size_t length) REQUIRES(gpu_lock)
{
	while (length) {
		size_t piece = length;
		char *staged = stage(l, &piece);

		if (!staged || !l->driver->to_host(staged, at, piece, l->stream) || !settle_lane(l) ||
		    !fault_copy_any(to, staged, piece))
			return false;
		to += piece;
		at += piece;
		length -= piece;
	}
	return true;
}

/* The copy of a piece whose last bytes have to be stored last is two, as a GPU promises no order within one. */
static bool write_staged(struct gpu_lane *l, uint64_t at, const char *staged, size_t length) REQUIRES(gpu_lock)
{
	size_t tail = copy_tail((const char *)(uintptr_t)at, length), body = length - tail;

	return (!body || l->driver->to_gpu(at, staged, body, l->stream)) &&
	       l->driver->to_gpu(at + body, staged + body, tail, l->stream);
}

static bool write_pieces(struct gpu_lane *l, uint64_t at, const char *from, size_t length) REQUIRES(gpu_lock)
{
	while (length) {
		size_t piece = length;
		char *staged = stage(l, &piece);

		if (!staged || !fault_copy_any(staged, from, piece) || !write_staged(l, at, staged, piece))
			return false;
		from += piece;
		at += piece;
		length -= piece;
		l->pending = true;
		hook_set(HOOK_GPU, true);
	}
	return true;
}

bool gpu_read(struct gpu_memory *m, void *to, uint64_t at, size_t length)
{
	bool ok = false;
	void *before;

	lock_take(&gpu_lock);
	if (enter(m, at, length, &before)) {
		ok = read_pieces(m->lane, to, at, length);
		m->lane->driver->leave(before);
	}
	lock_drop(&gpu_lock);
	return ok;
}

bool gpu_write(struct gpu_memory *m, uint64_t at, const void *from, size_t length)
{
	bool ok = false;
	void *before;

	if (!length)
		return true;
	lock_take(&gpu_lock);
	if (enter(m, at, length, &before)) {
		ok = write_pieces(m->lane, at, from, length);
		m->lane->driver->leave(before);
	}
	lock_drop(&gpu_lock);
	return ok;
}

/* The lock makes it atomic towards others. */
bool gpu_atomic(struct gpu_memory *m, struct memory_atomic *a)
{
	uint64_t at = (uintptr_t)a->at, word;
	bool ok = false;
	void *before;

	lock_take(&gpu_lock);
	if (enter(m, at, sizeof(word), &before)) {
		ok = read_pieces(m->lane, (char *)&a->before, at, sizeof(word));
		word = a->is_add ? a->before + a->swap_add : a->swap_add;
		if (ok && (a->is_add || a->before == a->compare))
			ok = write_pieces(m->lane, at, (char *)&word, sizeof(word));
		m->lane->driver->leave(before);
	}
	lock_drop(&gpu_lock);
	return ok;
}

bool gpu_settle(void)
{
	bool ok = true;
	void *before;

	lock_take(&gpu_lock);
	hook_set(HOOK_GPU, false);
	for (struct gpu_lane *l = atomic_load_explicit(&is_child, memory_order_relaxed) ? NULL : lanes; l; l = l->next)
		if (l->pending && l->driver->enter(l->context, &before)) {
			ok &= settle_lane(l);
			l->driver->leave(before);
		}
	lock_drop(&gpu_lock);
	return ok;
}

bool gpu_read_any(void *to, const void *from, size_t length)
{
	struct gpu_memory *m;
	bool ok;

	if (gpu_find(&m, (uintptr_t)from, length))
		return false;
	if (!m) {
		memcpy(to, from, length);
		return true;
	}
	ok = gpu_read(m, to, (uintptr_t)from, length);
	gpu_release(m);
	return ok;
}
