/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory. An adapter's memory avoids transfers over its bus; here it is ordinary memory with the same rules: it
 * is accessed by offsets, in words of four bytes, and its size is limited. */
#include "verbs/dm.h"

#include <stdlib.h>
#include <string.h>

#include "base/msan.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "device/front.h"
#include "fault/inject.h"
#include "memory/copy.h"
#include "verbs/context.h"
#include "verbs/mr.h"
#include "verbs/table.h"

#define WORD	  4u
#define MAX_ALIGN 12u /* log2: a page */

struct dm {
	struct ibv_dm base; /* the application's handle; must be first */
	char *memory;
	size_t length;
	uint32_t handle;
	_Atomic uint32_t users;		      /* number of regions and imports */
	struct dm *of;			      /* import: the owner of the memory */
	struct list all GUARDED_BY(dms_lock); /* in the list of importable memory */
};

struct lock dms_lock = LOCK_RANKED(DMS);
static struct list dms GUARDED_BY(dms_lock) = {&dms, &dms};
static _Atomic uint64_t in_use; /* bytes */

static int check_piece(const struct dm *dm, uint64_t offset, size_t length)
{
	if (offset % WORD || length % WORD || offset > dm->length || length > dm->length - offset)
		return EINVAL;
	return 0;
}

static int memcpy_to_dm(struct ibv_dm *base, uint64_t offset, const void *from, size_t length)
{
	struct dm *dm = (struct dm *)base;
	int error = check_piece(dm, offset, length);

	if (error)
		return fail(error);
	copy_in_order(dm->memory + offset, from, length);
	return 0;
}

static int memcpy_from_dm(void *to, struct ibv_dm *base, uint64_t offset, size_t length)
{
	struct dm *dm = (struct dm *)base;
	int error = check_piece(dm, offset, length);

	if (error)
		return fail(error);
	memcpy(to, dm->memory + offset, length);
	msan_wrote(to, length);
	return 0;
}

static void init(struct dm *dm, struct ibv_context *context, char *memory, size_t length)
{
	dm->base.context = context;
	dm->base.memcpy_to_dm = memcpy_to_dm;
	dm->base.memcpy_from_dm = memcpy_from_dm;
	dm->memory = memory;
	dm->length = length;
	list_init(&dm->all);
}

static void set_handle(struct dm *dm, uint32_t handle)
{
	dm->handle = handle;
#if RDMA_CORE >= 35
	dm->base.handle = handle;
#endif
}

/* relaxed: only the number counts */
static bool dm_reserve(size_t length)
{
	if (length <= HCA_MAX_DM &&
	    atomic_fetch_add_explicit(&in_use, length, memory_order_relaxed) + length <= HCA_MAX_DM)
		return true;
	if (length <= HCA_MAX_DM)
		atomic_fetch_sub_explicit(&in_use, length, memory_order_relaxed);
	return false;
}

static void dm_unreserve(size_t length)
{
	atomic_fetch_sub_explicit(&in_use, length, memory_order_relaxed);
}

static struct ibv_dm *alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	static uint32_t handles GUARDED_BY(dms_lock);
	size_t align;
	char *memory;
	struct dm *dm;

	if (inject_call(CALL_ibv_alloc_dm))
		return NULL;
	if (!attr || attr->comp_mask || !attr->length || attr->log_align_req > MAX_ALIGN)
		return fail_null(EINVAL);
	if (!dm_reserve(attr->length))
		return fail_null(ENOMEM);
	align = max_of((size_t)1 << attr->log_align_req, (size_t)CACHE_LINE);
	dm = calloc(1, sizeof(*dm));
	memory = aligned_alloc(align, (attr->length + align - 1) & ~(align - 1));
	if (!dm || !memory)
		goto err;
	memset(memory, 0, attr->length); /* clears old contents */
	init(dm, context, memory, attr->length);
	lock_take(&dms_lock);
	set_handle(dm, handles++);
	list_append(&dms, &dm->all);
	lock_drop(&dms_lock);
	atomic_fetch_add_explicit(&context_of(context)->objects, 1, memory_order_relaxed);
	check_made(CHECK_DM, dm, attr->length, context);
	return &dm->base;

err:
	dm_unreserve(attr->length);
	free(memory);
	free(dm);
	return fail_null(ENOMEM);
}

static int free_dm(struct ibv_dm *base)
{
	struct dm *dm = (struct dm *)base;
	bool busy;

	if (!dm || dm->of)
		return fail(EINVAL);
	lock_take(&dms_lock); /* so that it is not imported meanwhile */
	busy = atomic_load_explicit(&dm->users, memory_order_acquire);
	if (!busy)
		list_remove(&dm->all);
	lock_drop(&dms_lock);
	if (busy)
		return fail(EBUSY);
	check_gone(CHECK_DM, dm);
	atomic_fetch_sub_explicit(&context_of(base->context)->objects, 1, memory_order_release);
	dm_unreserve(dm->length);
	free(dm->memory);
	free(dm);
	return 0;
}

static struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *base, uint64_t offset, size_t length, unsigned access)
{
	struct dm *dm = (struct dm *)base;
	const unsigned rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE;
	struct mr *mr;

	if (inject_call(CALL_ibv_reg_mr))
		return NULL;
	if (!pd || !dm || (access & ~rights) || !(access & IBV_ACCESS_ZERO_BASED) || mr_check_access(access) ||
	    offset > dm->length || length > dm->length - offset)
		return fail_null(EINVAL);
	if (dm->of)
		dm = dm->of;
	mr = mr_add((struct pd *)pd, dm->memory + offset, length, 0, access);
	if (!mr)
		return NULL;
	mr->base.addr = NULL; /* no address: access is by offsets */
	mr->backing = &dm->users;
	atomic_fetch_add_explicit(&dm->users, 1, memory_order_relaxed);
	return &mr->base;
}

PUBLIC struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	struct dm *dm = calloc(1, sizeof(*dm));

	if (!dm)
		return NULL;
	lock_take(&dms_lock);
	list_each (l, &dms) {
		struct dm *of = container_of(l, struct dm, all);

		if (of->handle != handle || !context_same(of->base.context, context))
			continue;
		init(dm, context, of->memory, of->length);
		set_handle(dm, handle);
		dm->of = of;
		atomic_fetch_add_explicit(&of->users, 1, memory_order_relaxed);
	}
	lock_drop(&dms_lock);
	if (dm->of)
		return &dm->base;
	free(dm);
	return fail_null(ENOENT);
}

PUBLIC void ibv_unimport_dm(struct ibv_dm *base)
{
	struct dm *dm = (struct dm *)base;

	if (!dm || !dm->of)
		return;
	atomic_fetch_sub_explicit(&dm->of->users, 1, memory_order_release);
	free(dm);
}

void table_add_dm(struct verbs_context *v)
{
	v->alloc_dm = alloc_dm;
	v->free_dm = free_dm;
	v->reg_dm_mr = reg_dm_mr;
}
