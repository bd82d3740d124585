/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "memory/gpu_lane.h"
#include "memory/tuned.h"

struct lock gpu_lock = LOCK_RANKED(GPU);
struct gpu_lane *gpu_lanes;
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

	if (gpu_is_lost())
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

const char *gpu_works(void)
{
	const struct gpu_driver *d;
	const char *name;

	lock_take(&gpu_lock);
	d = find_driver();
	name = d && d->count() > 0 ? d->name : NULL;
	lock_drop(&gpu_lock);
	return name;
}

/* ---- lanes ---- */

/* With the context current. */
static struct gpu_lane *make_lane(const struct gpu_driver *d, void *context) REQUIRES(gpu_lock)
{
	struct gpu_lane *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct gpu_lane){.driver = d, .context = context, .next = gpu_lanes};
	l->staging = d->pinned(GPU_STAGING);
	if (!l->staging || !d->stream(&l->stream[0]) || !d->stream(&l->stream[1])) {
		free(l);
		return NULL;
	}
	gpu_lanes = l;
	return l;
}

/* With the context current. */
static struct gpu_lane *lane_of(const struct gpu_driver *d, void *context) REQUIRES(gpu_lock)
{
	struct gpu_lane *l;

	for (l = gpu_lanes; l; l = l->next)
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
	**found = (struct gpu_memory){.lane = l, .start = a.start, .length = a.length, .serial = a.serial};
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

bool gpu_is_lost(void)
{
	/* relaxed: a child starts with one thread */
	return atomic_load_explicit(&is_child, memory_order_relaxed);
}

bool gpu_enter(const struct gpu_memory *m, uint64_t at, size_t length, void **before)
{
	const struct gpu_driver *d = m->lane->driver;

	if (gpu_is_lost() || at < m->start || length > m->length || at - m->start > m->length - length ||
	    !d->enter(m->lane->context, before))
		return false;
	if (m->imported || d->is_same(&(struct gpu_address){m->start, m->length, m->serial}))
		return true;
	d->leave(*before);
	return false;
}

void gpu_leave(const struct gpu_memory *m, void *before)
{
	m->lane->driver->leave(before);
}

/* ---- other processes ---- */

bool gpu_export(const struct gpu_memory *m, struct gpu_export *e)
{
	void *before;
	bool ok = false;

	*e = (struct gpu_export){.start = m->start, .length = m->length, .serial = m->serial, .fd = -1};
	lock_take(&gpu_lock);
	if (!m->imported && gpu_enter(m, m->start, 1, &before)) {
		ok = m->lane->driver->export(e);
		gpu_leave(m, before);
	}
	lock_drop(&gpu_lock);
	return ok;
}

/* In the context that the program used last, which now is current. */
static struct gpu_memory *import_here(struct gpu_lane *l, const struct gpu_export *e) REQUIRES(gpu_lock)
{
	struct gpu_memory *m = malloc(sizeof(*m));
	uint64_t start;

	if (!m || !l->driver->import(&start, e)) {
		free(m);
		return NULL;
	}
	*m = (struct gpu_memory){.lane = l, .start = start, .length = e->length, .imported = true, .by_fd = e->fd >= 0};
	return m;
}

struct gpu_memory *gpu_import(const struct gpu_export *e, uint64_t *start)
{
	struct gpu_memory *m = NULL;
	void *before;

	lock_take(&gpu_lock);
	if (gpu_lanes && !gpu_is_lost() && gpu_lanes->driver->enter(gpu_lanes->context, &before)) {
		m = import_here(gpu_lanes, e);
		gpu_lanes->driver->leave(before);
	}
	lock_drop(&gpu_lock);
	if (m)
		*start = m->start;
	return m;
}

struct gpu_memory *gpu_find_again(const struct gpu_export *e)
{
	struct gpu_memory *m;

	if (gpu_find(&m, e->start, e->length) || !m || m->serial == e->serial)
		return m;
	gpu_release(m);
	return NULL;
}

void gpu_release(struct gpu_memory *m)
{
	void *before;

	lock_take(&gpu_lock);
	if (m && m->imported && gpu_enter(m, m->start, 1, &before)) {
		m->lane->driver->close(m->start, m->length, m->by_fd);
		gpu_leave(m, before);
	}
	lock_drop(&gpu_lock);
	free(m);
}
