/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies to and from memory of a GPU, and within it. The GPU's copies are slow to begin and fast to go on: so writes
 * that follow each other in memory are gathered, and long reads keep two copies under way. */
#include <string.h>
#include <sys/uio.h>

#include "base/hooks.h"
#include "memory/copy.h"
#include "memory/fault.h"
#include "memory/gpu.h"
#include "memory/gpu_lane.h"
#include "memory/kind.h"
#include "memory/tuned.h"

#define PAGE 4096u /* at least every page is touched */

static bool copy_in(void *arg, size_t offset, void *bytes, size_t length)
{
	return fault_copy_any(bytes, (const char *)arg + offset, length);
}

static bool copy_out(void *arg, size_t offset, void *bytes, size_t length)
{
	return fault_copy_any((char *)arg + offset, bytes, length);
}

/* ---- writes ---- */

/* The copy of bytes whose last ones have to be stored last is two, as a GPU promises no order within one. */
static bool begin_gathered(struct gpu_lane *l) REQUIRES(gpu_lock)
{
	uint64_t at = l->gathered.at;
	const char *staged = l->gathered.staged;
	size_t length = l->gathered.length, tail, body;

	if (!length)
		return true;
	tail = copy_tail((const char *)(uintptr_t)at, length);
	body = length - tail;
	l->gathered.length = 0;
	return (!body || l->driver->to_gpu(at, staged, body, l->stream[0])) &&
	       l->driver->to_gpu(at + body, staged + body, tail, l->stream[0]);
}

/* Waits for all copies of the lane, whose context is current. */
static bool settle_lane(struct gpu_lane *l) REQUIRES(gpu_lock)
{
	bool ok = begin_gathered(l);

	l->used = 0;
	l->pending = false;
	return l->driver->wait(l->stream[0]) && ok;
}

/* Staging memory for a write, at most as much as there is: *length. */
static char *stage(struct gpu_lane *l, size_t *length) REQUIRES(gpu_lock)
{
	char *at;

	*length = min_of(*length, GPU_PIECE);
	if (GPU_STAGING - l->used < *length && !settle_lane(l))
		return NULL;
	at = l->staging + l->used;
	l->used += *length;
	return at;
}

/* The bytes are staged. */
static bool gather(struct gpu_lane *l, uint64_t at, char *staged, size_t length) REQUIRES(gpu_lock)
{
	bool ok = true;

	l->pending = true;
	hook_set(HOOK_GPU, true);
	if (!l->gathered.length || l->gathered.at + l->gathered.length != at ||
	    l->gathered.staged + l->gathered.length != staged) {
		ok = begin_gathered(l);
		l->gathered.at = at;
		l->gathered.staged = staged;
	}
	l->gathered.length += length;
	return (l->gathered.length < GPU_PIECE || begin_gathered(l)) && ok;
}

static bool write_pieces(struct gpu_lane *l, uint64_t at, size_t length, gpu_mover *source, void *arg)
	REQUIRES(gpu_lock)
{
	for (size_t done = 0, piece; done < length; done += piece) {
		char *staged;

		piece = length - done;
		staged = stage(l, &piece);
		if (!staged || !source(arg, done, staged, piece) || !gather(l, at + done, staged, piece))
			return false;
	}
	return true;
}

bool gpu_write_from(struct gpu_memory *m, uint64_t at, size_t length, gpu_mover *source, void *arg)
{
	bool ok = false;
	void *before;

	if (!length)
		return true;
	lock_take(&gpu_lock);
	if (gpu_enter(m, at, length, &before)) {
		ok = write_pieces(m->lane, at, length, source, arg);
		gpu_leave(m, before);
	}
	lock_drop(&gpu_lock);
	return ok;
}

bool gpu_write(struct gpu_memory *m, uint64_t at, const void *from, size_t length)
{
	return gpu_write_from(m, at, length, copy_in, (void *)from);
}

/* ---- reads ---- */

/* With nothing of the lane under way: one piece is copied by each stream, and handed over when it has come. */
static bool read_pieces(struct gpu_lane *l, uint64_t at, size_t length, gpu_mover *sink, void *arg) REQUIRES(gpu_lock)
{
	size_t begun = 0, done = 0;
	bool ok = true;

	for (unsigned turn = 0; done < length && ok; turn ^= 1) {
		size_t piece = min_of(length - done, GPU_PIECE);

		/* two are under way */
		while (begun < length && begun < done + 2 * GPU_PIECE && ok) {
			size_t more = min_of(length - begun, GPU_PIECE);
			unsigned slot = begun / GPU_PIECE & 1;

			ok = l->driver->to_host(l->staging + slot * GPU_PIECE, at + begun, more, l->stream[slot]);
			begun += more;
		}
		ok = l->driver->wait(l->stream[turn]) && ok && sink(arg, done, l->staging + turn * GPU_PIECE, piece);
		done += piece;
	}
	/* after a failure, one may still come */
	return (ok || (l->driver->wait(l->stream[0]), l->driver->wait(l->stream[1]))) && ok;
}

/* With the context of the lane current. */
static bool read_settled(struct gpu_lane *l, uint64_t at, size_t length, gpu_mover *sink, void *arg) REQUIRES(gpu_lock)
{
	return (!l->pending || settle_lane(l)) && read_pieces(l, at, length, sink, arg);
}

bool gpu_read_to(struct gpu_memory *m, uint64_t at, size_t length, gpu_mover *sink, void *arg)
{
	bool ok = false;
	void *before;

	lock_take(&gpu_lock);
	if (gpu_enter(m, at, length, &before)) {
		ok = read_settled(m->lane, at, length, sink, arg);
		gpu_leave(m, before);
	}
	lock_drop(&gpu_lock);
	return ok;
}

bool gpu_read(struct gpu_memory *m, void *to, uint64_t at, size_t length)
{
	return gpu_read_to(m, at, length, copy_out, to);
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

/* ---- copies that are waited for ---- */

static bool settle_other(struct gpu_lane *l) REQUIRES(gpu_lock)
{
	void *before;
	bool ok;

	if (!l->pending)
		return true;
	if (!l->driver->enter(l->context, &before))
		return false;
	ok = settle_lane(l);
	l->driver->leave(before);
	return ok;
}

static void load_pages(void *arg)
{
	const struct iovec *of = arg;
	const volatile char *at = of->iov_base;

	for (size_t i = 0; i < of->iov_len; i += PAGE)
		(void)at[i];
	(void)at[of->iov_len - 1];
}

/* What is there will be overwritten. */
static void store_pages(void *arg)
{
	const struct iovec *of = arg;
	volatile char *at = of->iov_base;

	for (size_t i = 0; i < of->iov_len; i += PAGE)
		at[i] = 0;
	at[of->iov_len - 1] = 0;
}

static bool put_direct(struct gpu_lane *l, uint64_t at, const char *from, size_t length) REQUIRES(gpu_lock)
{
	size_t tail = copy_tail((const char *)(uintptr_t)at, length), body = length - tail;

	return begin_gathered(l) && (!body || l->driver->to_gpu(at, from, body, l->stream[0])) &&
	       l->driver->to_gpu(at + body, from + body, tail, l->stream[0]);
}

bool gpu_put(struct gpu_memory *m, uint64_t at, const void *from, size_t length)
{
	struct iovec bytes = {(void *)from, length};
	/* the driver needs memory that is there: unmapping it meanwhile raises the signal within the driver */
	bool direct = length >= DIRECT_PUT && fault_try(load_pages, &bytes), ok = false;
	void *before;

	if (!length)
		return true;
	lock_take(&gpu_lock);
	if (gpu_enter(m, at, length, &before)) {
		ok = direct ? put_direct(m->lane, at, from, length)
			    : write_pieces(m->lane, at, length, copy_in, (void *)from);
		ok = settle_lane(m->lane) && ok;
		gpu_leave(m, before);
	}
	lock_drop(&gpu_lock);
	return ok;
}

static bool get_direct(struct gpu_lane *l, char *to, uint64_t at, size_t length) REQUIRES(gpu_lock)
{
	size_t tail = copy_tail(to, length), body = length - tail;

	return begin_gathered(l) && l->driver->to_host(to, at, body, l->stream[0]) && l->driver->wait(l->stream[0]) &&
	       l->driver->to_host(to + body, at + body, tail, l->stream[0]);
}

bool gpu_get(struct gpu_memory *m, void *to, uint64_t at, size_t length)
{
	struct iovec bytes = {to, length};
	bool ok = false;
	void *before;

	if (length < DIRECT_GET || !fault_try(store_pages, &bytes))
		return gpu_read(m, to, at, length);
	lock_take(&gpu_lock);
	if (gpu_enter(m, at, length, &before)) {
		ok = get_direct(m->lane, to, at, length);
		ok = settle_lane(m->lane) && ok;
		gpu_leave(m, before);
	}
	lock_drop(&gpu_lock);
	return ok;
}

/* With the context of the destination current. What was written to the source before is there: copies of a lane are in
 * order. */
static bool copy_within(struct gpu_memory *to, uint64_t to_at, struct gpu_memory *from, uint64_t from_at, size_t length)
	REQUIRES(gpu_lock)
{
	struct gpu_lane *l = to->lane;
	size_t tail = copy_tail((const char *)(uintptr_t)to_at, length), body = length - tail;
	bool ok = (from->lane == l || settle_other(from->lane)) && begin_gathered(l) &&
		  (!body || l->driver->within(to_at, from_at, body, l->stream[0])) &&
		  l->driver->within(to_at + body, from_at + body, tail, l->stream[0]);

	return settle_lane(l) && ok;
}

bool gpu_copy(struct gpu_memory *to, uint64_t to_at, struct gpu_memory *from, uint64_t from_at, size_t length)
{
	void *before, *inner;
	bool ok = false;

	if (!length)
		return true;
	lock_take(&gpu_lock);
	if (gpu_enter(to, to_at, length, &before)) {
		if (from->lane->driver == to->lane->driver && gpu_enter(from, from_at, length, &inner)) {
			gpu_leave(from, inner);
			ok = copy_within(to, to_at, from, from_at, length);
		}
		gpu_leave(to, before);
	}
	lock_drop(&gpu_lock);
	return ok;
}

/* ---- atomics ---- */

/* The lock makes it atomic towards others. */
bool gpu_atomic(struct gpu_memory *m, struct memory_atomic *a)
{
	uint64_t at = (uintptr_t)a->at, word;
	bool ok = false;
	void *before;

	lock_take(&gpu_lock);
	if (gpu_enter(m, at, sizeof(word), &before)) {
		ok = read_settled(m->lane, at, sizeof(word), copy_out, &a->before);
		word = a->is_add ? a->before + a->swap_add : a->swap_add;
		if (ok && (a->is_add || a->before == a->compare))
			ok = write_pieces(m->lane, at, sizeof(word), copy_in, &word);
		gpu_leave(m, before);
	}
	lock_drop(&gpu_lock);
	return ok;
}

bool gpu_settle(void)
{
	bool ok = true;

	lock_take(&gpu_lock);
	hook_set(HOOK_GPU, false);
	for (struct gpu_lane *l = gpu_is_lost() ? NULL : gpu_lanes; l; l = l->next)
		ok &= settle_other(l);
	lock_drop(&gpu_lock);
	return ok;
}
