/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/show.h"

#include <sys/mman.h>

#include "memory/shareable.h"
#include "memory/export.h"
#include "memory/gpu.h"
#include "memory/share.h"

static_assert(SHARE_FILES <= UINT8_MAX, "mr->file holds the number of one");

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* True if the region is memory of this process. */
static bool is_memory(const struct mr *mr)
{
	return mr->kind == MEMORY_PLAIN || mr->kind == MEMORY_PAGED;
}

static void show_open(struct mr *mr, const struct shareable *where, uint32_t file)
{
	mr->file = (uint8_t)file;
	share_open_region(mr->hca->share, mr->index, mr->base.rkey,
			  &(struct share_region){
				  .access = mr->access & REMOTE,
				  .pd = (uintptr_t)mr->pd,
				  .iova = mr->iova,
				  .length = mr->length,
				  .address = (uintptr_t)mr->memory,
				  .offset = where->offset,
				  .mapped = where->mapped,
				  .skip = where->skip,
				  .file = file,
			  });
}

static void show_gpu(struct mr *mr)
{
	struct exported e;

	export_make_gpu(mr->hca->share, mr->handle.gpu, (uintptr_t)mr->memory, mr->length, &e);
	if (e.file)
		show_open(mr, &(struct shareable){e.offset, e.mapped, 0}, e.file);
}

static void hide_gpu(struct mr *mr)
{
	struct share *s = mr->hca->share;

	if (!mr->file)
		return;
	share_close_region(s, mr->index);
	share_settle(s);
	export_release(s, mr->file);
	mr->file = 0;
}

void show_region(struct mr *mr)
{
	struct share *s = mr->hca->share;
	struct shareable where;
	struct exported exported = {0};

	mr->file = 0;
	if (!s)
		return;
	if (mr->kind == MEMORY_GPU)
		show_gpu(mr);
	if (!is_memory(mr))
		return;
	/* the driver of a GPU may have pinned pages, which then must not move */
	shareable_make(s->arena, mr->memory, mr->length, !mr_is_indirect(mr) && !gpu_is_loaded(), &where);
	/* memory that may not be present is not for one-sided operations of others: the queue handles it */
	if (mr_is_indirect(mr))
		return;
	if (!where.mapped && (mr->access & IBV_ACCESS_LOCAL_WRITE)) {
		export_make(s, mr->memory, mr->length, &exported);
		where = (struct shareable){exported.offset, exported.mapped, 0};
	}
	show_open(mr, &where, exported.file);
}

void hide_region(struct mr *mr)
{
	struct share *s = mr->hca->share;
	const struct share_region *r;
	struct shareable where = {0};

	if (!s)
		return;
	if (mr->kind == MEMORY_GPU)
		hide_gpu(mr);
	if (!is_memory(mr))
		return;
	if (!mr_is_indirect(mr)) {
		share_close_region(s, mr->index);
		share_settle(s);
		r = share_region(s, mr->index);
		if (r && !mr->file)
			where = (struct shareable){r->offset, r->mapped, r->skip};
	}
	export_release(s, mr->file);
	mr->file = 0;
	shareable_release(s->arena, mr->memory, mr->length, &where);
}

void suspend_region(struct mr *mr)
{
	if (mr->hca->share)
		share_close_region(mr->hca->share, mr->index);
}

void resume_region(struct mr *mr)
{
	if (mr->hca->share)
		share_reopen_region(mr->hca->share, mr->index, mr->base.rkey);
}

void *show_memory(struct hca *hca, size_t length)
{
	void *memory = hca->share ? shareable_new(hca->share->arena, length) : NULL;

	if (memory)
		return memory;
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

/* A UC QP is no target, but local peers look at its addresses as well. */
static bool is_shown(const struct qp *qp)
{
	if (!qp->alive || qp->needs_packets || (qp->transport != TRANSPORT_RC && qp->transport != TRANSPORT_UC))
		return false;
	/* the first request tells a QP in RTR that the connection is established: it must arrive as a packet */
	return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD || (qp->state == IBV_QPS_RTR && qp->comm_est);
}

void show_qp(struct qp *qp)
{
	unsigned access = qp->attr.qp_access_flags & REMOTE;
	struct share *s = qp->hca->share;

	if (!s)
		return;
	if (!is_shown(qp)) {
		share_close_qp(s, qp->index);
		return;
	}
	if (qp->transport != TRANSPORT_RC)
		access = 0;
	if (!qp->resp.response_size) /* it remembers no READs and atomics, so it allows none */
		access &= IBV_ACCESS_REMOTE_WRITE;
	share_open_qp(s, qp->index, access, (uintptr_t)qp->pd,
		      share_pair(qp->path.sgid.raw, qp->base.qp_num, qp->path.dgid.raw, qp->attr.dest_qp_num));
}

void show_settle(struct hca *hca)
{
	/* Without regions no visitor is inside: closing the last one has waited. Sequentially consistent, with the
	 * closing of the QP before: a visitor that entered by that QP saw a region that was counted. */
	if (hca->share && atomic_load_explicit(&hca->regions, memory_order_seq_cst))
		share_settle(hca->share);
}

uint64_t show_closed(struct hca *hca)
{
	return hca->share ? share_closed(hca->share) : 0;
}

bool show_has_settled(struct hca *hca, uint64_t closed)
{
	return !hca->share || share_has_settled(hca->share, closed);
}
