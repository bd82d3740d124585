/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/reach.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/memfd.h"
#include "memory/copy.h"
#include "memory/fault.h"
#include "memory/guarded.h"
#include "memory/reach_table.h"
#include "memory/tuned.h"

/* ---- opening ---- */

bool reach_no_process_vm, reach_maps_nothing;

static bool probe_process_vm(const struct reach *r)
{
	uint64_t word;
	struct iovec here = {&word, sizeof(word)};
	/* any address will do: EFAULT means that the call is allowed */
	struct iovec there = {NULL, sizeof(word)};

	return !reach_no_process_vm && (process_vm_readv(r->pid, &here, 1, &there, 1, 0) >= 0 || errno == EFAULT);
}

/* Maps a part of what visitors write. */
static int map_written(struct reach *r, int fd, uint64_t offset, uint64_t size)
{
	char *at = (char *)r->table->visitor + offset;

	return mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) == MAP_FAILED ? -errno
													       : 0;
}

/* Maps the hazard counters of this process, and whatever else is in that page; and the claims. */
static int map_hazards(struct reach *r, int fd)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size = max_of(page, (uint64_t)sizeof(struct share_visitor));
	uint64_t offset = (r->own->slot * sizeof(struct share_visitor)) & ~(size - 1);

	return map_written(r, fd, offset, size)
		       ?: map_written(r, fd, sizeof(r->table->visitor), sizeof(r->table->claims));
}

static int map_table(struct reach *r, const int fd[SHARE_FDS])
{
	struct share_table *t;
	int err;

	if (!memfd_is_fixed(fd[SHARE_FD_TABLE], sizeof(*t)) || !memfd_is_fixed(fd[SHARE_FD_VISITOR], SHARE_WRITTEN) ||
	    (fd[SHARE_FD_ARENA] >= 0 && !memfd_is_fixed(fd[SHARE_FD_ARENA], (uint64_t)EXTENTS << EXTENT_SHIFT)))
		return -EPROTO;
	t = mmap(NULL, sizeof(*t), PROT_READ, MAP_SHARED | MAP_NORESERVE, fd[SHARE_FD_TABLE], 0);
	if (t == MAP_FAILED)
		return -errno;
	r->table = t;
	r->its_identity = t->identity;
	if (t->magic != SHARE_MAGIC || t->size_of_page != (uint32_t)sysconf(_SC_PAGESIZE) || !r->its_identity)
		return -EPROTO;
	err = map_hazards(r, fd[SHARE_FD_VISITOR]);
	madvise(t, sizeof(*t), MADV_DONTFORK);
	return err;
}

static void reach_take_over(struct reach *r)
{
	lock_set_rank(&r->lock, RANK_REACH);
	lock_set_rank(&r->importer.lock, RANK_IMPORT);
	r->code = key_code(r->table->key_mix, r->table->key_mask);
	atomic_store_explicit(&r->identity, r->own->table->identity, memory_order_relaxed);
	r->hazards = &r->table->visitor[r->own->slot];
	r->fenced = !r->table->barrier || !r->own->takes_part;
	share_admit(r->own, r->slot, r->its_identity, r->pid);
}

int reach_open(struct reach **made, struct share *own, const int fd[SHARE_FDS], uint16_t slot, pid_t pid)
{
	struct reach *r = calloc(1, sizeof(*r));
	int err = r ? 0 : -ENOMEM;

	if (r) {
		*r = (struct reach){.own = own, .slot = slot, .pid = pid, .arena = fd[SHARE_FD_ARENA]};
		err = map_table(r, fd);
	}
	close(fd[SHARE_FD_TABLE]);
	if (fd[SHARE_FD_VISITOR] >= 0)
		close(fd[SHARE_FD_VISITOR]);
	if (err) {
		if (r && r->table)
			munmap(r->table, sizeof(*r->table));
		if (fd[SHARE_FD_ARENA] >= 0)
			close(fd[SHARE_FD_ARENA]);
		free(r);
		return err;
	}
	r->process_vm = probe_process_vm(r);
	r->importer = (struct importer){.table = r->table, .pid = pid};
	reach_take_over(r);
	*made = r;
	return 0;
}

int reach_self(struct reach **made, struct share *own)
{
	struct reach *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	*r = (struct reach){
		.own = own,
		.slot = own->slot,
		.pid = getpid(),
		.arena = -1,
		.self = true,
		.table = own->table,
		.its_identity = own->table->identity,
		.importer = {.table = own->table},
	};
	reach_take_over(r);
	*made = r;
	return 0;
}

void reach_dead(struct reach *r)
{
	atomic_store_explicit(&r->identity, NOBODY, memory_order_relaxed);
	share_expel(r->own, r->slot, r->its_identity);
}

void reach_close(struct reach *r)
{
	if (!r)
		return;
	lock_assert_unshared(&r->lock);
	reach_dead(r);
	for (uint32_t i = 0; i < r->olds; i++)
		munmap(r->old[i].iov_base, r->old[i].iov_len);
	for (uint32_t i = 0; i < EXTENTS / VIEW_CHUNK; i++) {
		struct view *chunk = atomic_load_explicit(&r->view[i], memory_order_relaxed);

		for (uint32_t n = 0; chunk && n < VIEW_CHUNK; n++) {
			uint64_t length = atomic_load_explicit(&chunk[n].length, memory_order_relaxed);

			if (length)
				munmap(atomic_load_explicit(&chunk[n].at, memory_order_relaxed), length);
		}
		free(chunk);
	}
	free(r->old);
	import_close(&r->importer);
	if (!r->self)
		munmap(r->table, sizeof(*r->table));
	if (r->arena >= 0)
		close(r->arena);
	free(r);
}

void reach_abandon(struct reach *r)
{
	if (r->arena >= 0)
		close(r->arena);
	r->arena = -1;
}

void reach_tidy(struct reach *r)
{
	import_release(&r->importer);
}

bool reach_has_process_vm(const struct reach *r)
{
	return r->self || r->process_vm;
}

/* ---- views ---- */

static struct view *view_of(struct reach *r, uint64_t offset)
{
	uint64_t extent = offset >> EXTENT_SHIFT;
	struct view *chunk;

	if (unlikely(extent >= EXTENTS))
		return NULL;
	/* acquire pairs with reach_make_view() */
	chunk = atomic_load_explicit(&r->view[extent / VIEW_CHUNK], memory_order_acquire);
	return chunk ? &chunk[extent % VIEW_CHUNK] : NULL;
}

static bool remember_old(struct reach *r, char *at, uint64_t length) REQUIRES(r->lock)
{
	struct iovec *more = realloc(r->old, (r->olds + 1) * sizeof(*more));

	if (!more)
		return false;
	r->old = more;
	r->old[r->olds++] = (struct iovec){at, length};
	return true;
}

/* Maps the extent up to `need` and more, as it may have longer regions. */
static bool reach_make_view(struct reach *r, uint64_t offset, uint64_t need) REQUIRES(r->lock)
{
	uint64_t extent = offset >> EXTENT_SHIFT, length = VIEW_LEAST, old;
	_Atomic(struct view *) *chunk = &r->view[extent / VIEW_CHUNK];
	struct view *v = view_of(r, offset);
	char *at;

	if (!v) {
		v = calloc(VIEW_CHUNK, sizeof(*v));
		if (!v)
			return false;
		atomic_store_explicit(chunk, v, memory_order_release);
		v += extent % VIEW_CHUNK;
	}
	while (length < need)
		length *= 2;
	old = atomic_load_explicit(&v->length, memory_order_relaxed);
	if (length <= old)
		return true;
	if (old && !remember_old(r, atomic_load_explicit(&v->at, memory_order_relaxed), old))
		return false;
	at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, r->arena,
		  (off_t)(extent << EXTENT_SHIFT));
	if (at == MAP_FAILED)
		return false;
	madvise(at, length, MADV_DONTFORK);
	/* release: a thread that sees the length sees the address */
	atomic_store_explicit(&v->at, at, memory_order_relaxed);
	atomic_store_explicit(&v->length, length, memory_order_release);
	return true;
}

__attribute__((noinline)) static bool need_view(struct reach *r, uint64_t offset, uint64_t need)
{
	bool ok;

	if (offset >> EXTENT_SHIFT >= EXTENTS || need > 1ull << EXTENT_SHIFT) /* no extent can contain that */
		return false;
	lock_take(&r->lock);
	ok = r->arena >= 0 && reach_make_view(r, offset, need);
	lock_drop(&r->lock);
	return ok;
}

static char *mapped_at(struct reach *r, uint64_t offset, uint64_t length)
{
	struct view *v = view_of(r, offset);
	uint64_t within = offset & ((1ull << EXTENT_SHIFT) - 1);

	/* acquire pairs with reach_make_view() */
	if (unlikely(!v || atomic_load_explicit(&v->length, memory_order_acquire) < within + length)) {
		if (!need_view(r, offset, within + length))
			return NULL;
		v = view_of(r, offset);
	}
	return atomic_load_explicit(&v->at, memory_order_relaxed) + within;
}

/* ---- accesses ---- */

void reach_leave(struct reach *r)
{
	_Atomic uint32_t *count = &r->hazards->hazard[hazard_number - 1].count;

	/* release pairs with share_settle(): the access is complete */
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_release);
}

bool reach_contradicts(const struct reach *r, const struct reach_pair *pair)
{
	const struct share_qp *qp;

	if (pair->qp >= SHARE_QPS)
		return false;
	qp = &r->table->qp[pair->qp];
	/* acquire pairs with share_open_qp() */
	return atomic_load_explicit(&((struct share_qp *)qp)->open, memory_order_acquire) & SHARE_QP_OPEN &&
	       share_qp_pair(qp) != pair->pair;
}

/* For a region in a file that the local peer exports. A file that may shrink can fault. The caller is in a try, but
 * that helps only while the handlers of uroce are installed. Otherwise process_vm is used where it is allowed, else the
 * copy by the kernel. */
static void locate_exported(struct reach *r, const struct share_region *region, uint64_t within, uint64_t length,
			    struct reach_span *span)
{
	bool may_shrink;
	char *at = import_at(&r->importer, region->file, region->offset + within, length, &may_shrink);

	if (!at)
		return;
	if (!may_shrink || fault_is_armed())
		span->at = at;
	else if (!r->process_vm && guarded_available())
		span->guarded = at;
}

/* Memory of a GPU that the local peer exports. */
static __attribute__((cold, noinline)) bool locate_gpu(struct reach *r, const struct share_region *region, uint64_t at,
						       uint64_t length, struct reach_span *span)
{
	uint64_t address =
		import_gpu_at(&r->importer, region->file & ~SHARE_OF_GPU, region->offset + at, length, &span->gpu);

	*span = (struct reach_span){.gpu = address ? span->gpu : NULL, .address = address};
	return address;
}

bool reach_locate(struct reach *r, const struct share_region *region, uint64_t va, uint64_t length,
		  struct reach_span *span)
{
	uint64_t at = va - region->iova;

	*span = (struct reach_span){.address = region->address + at};
	if (unlikely(region->file & SHARE_OF_GPU))
		return locate_gpu(r, region, at, length, span);
	if (unlikely(reach_maps_nothing))
		return r->process_vm;
	if (r->self)
		span->at = (char *)(uintptr_t)span->address;
	else if (unlikely(!share_is_mapped(region, va, length)))
		return r->process_vm;
	else if (likely(!region->file))
		span->at = mapped_at(r, region->offset + (at - region->skip), length);
	else
		locate_exported(r, region, at - region->skip, length, span);
	return span->at || span->guarded || r->process_vm;
}

void reach_remember(struct reach *r, struct reach_pair *pair, const struct share_region *region, uint32_t rkey,
		    uint64_t closed)
{
	uint64_t within = region->offset & ((1ull << EXTENT_SHIFT) - 1);

	pair->length = 0;
	if (r->self) {
		pair->va = region->iova;
		pair->length = region->length;
		pair->at = (char *)(uintptr_t)region->address;
	} else if (!region->file && region->mapped) {
		struct view *v = view_of(r, region->offset);
		/* a view only grows; acquire pairs with reach_make_view() */
		uint64_t length = v ? atomic_load_explicit(&v->length, memory_order_acquire) : 0;

		if (unlikely(length <= within)) /* invalid: no region leaves its extent */
			return;
		pair->va = region->iova + region->skip;
		pair->length = min_of(region->mapped, length - within);
		pair->at = atomic_load_explicit(&v->at, memory_order_relaxed) + within;
	}
	pair->access = region->access & atomic_load_explicit(&r->table->qp[pair->qp].open, memory_order_relaxed);
	pair->key = rkey;
	pair->closed = closed;
}

bool reach_enter(struct reach *r, struct reach_pair *pair, uint32_t rkey, uint64_t va, uint64_t length, unsigned access,
		 struct reach_span *span)
{
	const struct share_qp *qp;
	struct share_region region;
	uint64_t closed;

	if (unlikely(pair->qp >= SHARE_QPS))
		return false;
	qp = &r->table->qp[pair->qp];
	if ((!hazard_number && hazard_take() == NO_HAZARD) || !reach_begin(r))
		return false;
	/* as in reach_resume(): all that is seen open after this load is valid until the count changes */
	closed = atomic_load_explicit(&r->table->closed, memory_order_seq_cst);
	if (likely(copy_region(r, rkey, &region) && qp_is_open(qp, pair->pair, access) && region.pd == qp->pd &&
		   (region.access & access) == access && region_has(&region, va, length) &&
		   reach_locate(r, &region, va, length, span))) {
		if (span->at)
			reach_remember(r, pair, &region, rkey, closed);
		return true;
	}
	reach_leave(r);
	return false;
}

bool reach_resume(struct reach *r, const struct reach_pair *pair)
{
	if (unlikely(!reach_begin(r)))
		return false;
	/* as qp_is_open(), with shut() in share.c */
	if (likely(atomic_load_explicit(&r->table->closed, memory_order_seq_cst) == pair->closed))
		return true;
	reach_leave(r);
	return false;
}

static bool write_guarded(char *to, const struct iovec *from, unsigned count)
{
	bool ok = true;

	for (unsigned i = 0; ok && i < count; to += from[i++].iov_len)
		ok = guarded_write(to, from[i].iov_base, from[i].iov_len);
	return ok;
}

static bool read_guarded(const char *from, const struct iovec *to, unsigned count)
{
	bool ok = true;

	for (unsigned i = 0; ok && i < count; from += to[i++].iov_len)
		ok = guarded_read(to[i].iov_base, from, to[i].iov_len);
	return ok;
}

static bool write_afar(struct reach *r, const struct reach_span *span, const struct iovec *from, unsigned count,
		       uint64_t length)
{
	uint64_t end = span->address + length, tail = length > 8 && !(end & 7) ? 8 : length > 4 && !(end & 3) ? 4 : 1;
	/* process_vm copies the pieces in order */
	struct iovec there[2] = {
		{(void *)(uintptr_t)span->address, length - tail},
		{(void *)(uintptr_t)(end - tail), tail},
	};

	return process_vm_writev(r->pid, from, count, there, 2, 0) == (ssize_t)length;
}

bool reach_write(struct reach *r, const struct reach_span *span, const struct iovec *from, unsigned count,
		 uint64_t length)
{
	char *to = span->at;

	if (unlikely(span->guarded))
		return write_guarded(span->guarded, from, count);
	if (unlikely(!to))
		return write_afar(r, span, from, count, length);
	for (unsigned i = 0; i < count && length; i++) {
		size_t n = from[i].iov_len;

		length -= n;
		if (length == 0)
			copy_in_order(to, from[i].iov_base, n);
		else
			copy_bytes(to, from[i].iov_base, n);
		to += n;
	}
	return true;
}

bool reach_read(struct reach *r, const struct reach_span *span, const struct iovec *to, unsigned count, uint64_t length)
{
	struct iovec there = {(void *)(uintptr_t)span->address, length};
	const char *from = span->at;

	if (unlikely(span->guarded))
		return read_guarded(span->guarded, to, count);
	if (unlikely(!from))
		return process_vm_readv(r->pid, to, count, &there, 1, 0) == (ssize_t)length;
	for (unsigned i = 0; i < count; i++) {
		copy_bytes(to[i].iov_base, from, to[i].iov_len);
		from += to[i].iov_len;
	}
	return true;
}

bool reach_is_open(const struct reach *r, const struct reach_pair *pair)
{
	/* orders our loads of the memory before the check; pairs with share_close_qp(), before which the memory is not
	 * changed */
	atomic_thread_fence(memory_order_acquire);
	return pair->qp < SHARE_QPS && qp_is_open(&r->table->qp[pair->qp], pair->pair, 0);
}
