/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided accesses of which one end, or both, is memory of a GPU. */
#include "memory/fault.h"
#include "memory/gpu.h"
#include "memory/reach.h"

/* An access to a part of a span that is not of a GPU. */
struct part {
	struct reach *reach;
	const struct reach_span *span;
	size_t begin; /* where the part begins in the span */
	bool is_write;
	struct reach_span at;
	struct iovec own;
	bool done;
};

static void copy_plain(void *arg)
{
	struct part *p = arg;

	p->done = p->is_write ? reach_write(p->reach, &p->at, &p->own, 1, p->own.iov_len)
			      : reach_read(p->reach, &p->at, &p->own, 1, p->own.iov_len);
}

/* A gpu_mover between the span and staged bytes, or other own memory. */
static bool move(void *arg, size_t offset, void *bytes, size_t length)
{
	struct part *p = arg;
	size_t at = p->begin + offset;

	p->at = (struct reach_span){
		.at = p->span->at ? p->span->at + at : NULL,
		.guarded = p->span->guarded ? p->span->guarded + at : NULL,
		.address = p->span->address + at,
	};
	p->own = (struct iovec){bytes, length};
	p->done = false;
	return fault_try(copy_plain, p) && p->done;
}

/* One piece of own memory, of `gpu` or not; the span is not of a GPU. */
static bool copy_with_host(struct part *p, const struct iovec *own, struct gpu_memory *gpu)
{
	uint64_t at = (uintptr_t)own->iov_base;

	if (!gpu)
		return move(p, 0, own->iov_base, own->iov_len);
	if (p->span->at)
		return p->is_write ? gpu_get(gpu, p->span->at + p->begin, at, own->iov_len)
				   : gpu_put(gpu, at, p->span->at + p->begin, own->iov_len);
	return p->is_write ? gpu_read_to(gpu, at, own->iov_len, move, p)
			   : gpu_write_from(gpu, at, own->iov_len, move, p);
}

/* The span is of a GPU. */
static bool copy_with_gpu(const struct part *p, const struct iovec *own, struct gpu_memory *gpu)
{
	uint64_t there = p->span->address + p->begin, here = (uintptr_t)own->iov_base;

	if (!gpu)
		return p->is_write ? gpu_put(p->span->gpu, there, own->iov_base, own->iov_len)
				   : gpu_get(p->span->gpu, own->iov_base, there, own->iov_len);
	return p->is_write ? gpu_copy(p->span->gpu, there, gpu, here, own->iov_len)
			   : gpu_copy(gpu, here, p->span->gpu, there, own->iov_len);
}

bool reach_copy_gpu(struct reach *r, const struct reach_span *span, const struct iovec *own,
		    struct gpu_memory *const *gpu, unsigned count, bool is_write)
{
	struct part p = {.reach = r, .span = span, .is_write = is_write};
	bool ok = true;

	for (unsigned i = 0; i < count && ok; p.begin += own[i++].iov_len)
		ok = span->gpu ? copy_with_gpu(&p, &own[i], gpu[i]) : copy_with_host(&p, &own[i], gpu[i]);
	return gpu_settle() && ok;
}
