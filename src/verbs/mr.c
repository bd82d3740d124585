/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions: checks, registration and imports. The memory itself is neither touched nor pinned. */
#include "verbs/mr.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cause.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "check/regions.h"
#include "device/adapter.h"
#include "device/device.h"
#include "device/front.h"
#include "fault/inject.h"
#include "memory/fault.h"
#include "memory/gpu.h"
#include "memory/guarded.h"
#include "memory/maps.h"
#include "object/mr.h"
#include "object/qp.h"
#include "verbs/context.h"
#include "verbs/table.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define ACCESS_FLUSH (3u << 8) /* IBV_ACCESS_FLUSH_GLOBAL, _PERSISTENT: of rdma-core 44 and later */
#define ACCESS_REQUIRED_FLAGS                                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
	 IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB)

int mr_check_access(unsigned access)
{
	bool remote_write = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	if (access & ACCESS_FLUSH)
		return EOPNOTSUPP;
	if (access & ~(unsigned)(ACCESS_REQUIRED_FLAGS | IBV_ACCESS_OPTIONAL_RANGE))
		return because(CAUSE_REGISTER_ACCESS, EINVAL, "ibv_reg_mr: the access flags 0x%x are unknown",
			       access & ~(unsigned)(ACCESS_REQUIRED_FLAGS | IBV_ACCESS_OPTIONAL_RANGE));
	if (remote_write && !(access & IBV_ACCESS_LOCAL_WRITE)) /* ibv_reg_mr(3) */
		return because(CAUSE_REGISTER_ACCESS, EINVAL, "ibv_reg_mr: the access flags 0x%x lack LOCAL_WRITE",
			       access);
	if ((access & IBV_ACCESS_ON_DEMAND) && !(adapter()->odp && guarded_available()))
		return EOPNOTSUPP;
	return 0;
}

static int unmapped(const struct mapping *m, uint64_t address, uint64_t end, bool writable)
{
	bool is_there = m->start <= address && m->end > address;

	return because(CAUSE_REGISTER_UNMAPPED, EFAULT,
		       "ibv_reg_mr: of the memory up to 0x%" PRIx64 ", 0x%" PRIx64 " is not %s", end, address,
		       !is_there  ? "mapped"
		       : writable ? "writable"
				  : "readable");
}

/* Checks that every byte is mapped: to write if `writable`, which is what Linux pins it for, else to read. */
static int check_mapped(uint64_t address, uint64_t length, bool writable)
{
	uint64_t end = address + length, before = address & ((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	struct mapping m = {0};
	struct maps maps;
	int error = 0;

	if (maps_open(&maps)) /* without /proc only holes are found */
		return msync((void *)(address - before), length + before, MS_ASYNC) ? EFAULT : 0;
	for (; address < end && !error; address = m.end)
		if (maps_find(&maps, address, &m) || m.start > address || !(writable ? m.writable : m.readable))
			error = unmapped(&m, address, end, writable);
	maps_close(&maps);
	return error;
}

static int check_memory(void *address, size_t length, unsigned access)
{
	if ((uint64_t)(uintptr_t)address + length < length)
		return EINVAL;
	if (hooks_any())
		check_registers(address, length);
	/* ib_umem_get() of Linux wants a page: without a length, one in which the address is not the first */
	if (length == 0 && (uintptr_t)address % (uintptr_t)sysconf(_SC_PAGESIZE) == 0)
		return EINVAL;
	if (access & IBV_ACCESS_ON_DEMAND) /* the memory may be mapped and unmapped at any time */
		return 0;
	return check_mapped((uintptr_t)address, max_of(length, (size_t)1),
			    access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND));
}

/* The device that counts the regions of a PD: that of the PD itself, which outlives its imports. */
static struct device *device_of_pd(struct pd *pd)
{
	return context_of(pd_domain(pd)->base.context)->device;
}

struct mr *mr_add(struct pd *pd, void *memory, size_t length, uint64_t iova, unsigned access)
{
	return mr_add_kind(pd, memory, length, iova, access, mr_kind_for(access), (union memory_handle){0});
}

struct mr *mr_add_kind(struct pd *pd, void *memory, size_t length, uint64_t iova, unsigned access,
		       enum memory_kind kind, union memory_handle handle)
{
	struct device *d = device_of_pd(pd);
	int most = adapter()->attr.max_mr;
	struct mr *mr;

	if (!adapter_take(&d->regions, most)) {
		cause_say(CAUSE_REGISTER_MANY, "ibv_reg_mr: the device has %d regions, all it can", most);
		return fail_null(ENOMEM);
	}
	fault_arm();
	mr = mr_register_kind(pd, memory, length, iova, access, kind, handle);
	if (mr) {
		atomic_fetch_add_explicit(&mr->pd->users, 1, memory_order_relaxed);
		check_made(CHECK_MR, mr, length, pd);
		return mr;
	}
	adapter_give(&d->regions);
	if (atomic_load_explicit(&pd->hca->regions, memory_order_relaxed) >= HCA_MAX_MR)
		cause_say(CAUSE_REGISTER_MANY, "ibv_reg_mr: the device has %u regions, all it can", HCA_MAX_MR);
	else
		cause_say(CAUSE_SHORTAGE, "ibv_reg_mr: %s", strerror(ENOMEM));
	return NULL;
}

/* Only its lkey is usable: a peer gets no rights. */
static struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	struct mr *mr = pd ? mr_add_kind((struct pd *)pd, NULL, SIZE_MAX, 0, IBV_ACCESS_LOCAL_WRITE, MEMORY_NULL,
					 (union memory_handle){0})
			   : NULL;

	return mr ? &mr->base : fail_null(pd ? ENOMEM : EINVAL);
}

/* From now on inline data may be memory of a GPU. */
static void leave_fast_inline(struct hca *hca)
{
	/* relaxed: only whether this is the first; sq_init() does the same for queue pairs that are created later */
	if (atomic_exchange_explicit(&hca->has_gpu_memory, true, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < HCA_MAX_QP; i++) {
		struct qp *qp = pool_at_random(&hca->qps, i);

		if (!qp)
			continue;
		lock_take(&qp->lock);
		qp->sq.fast_inline = 0;
		lock_drop(&qp->lock);
	}
}

int mr_add_gpu(struct mr **made, struct pd *pd, void *address, size_t length, uint64_t iova, unsigned access)
{
	union memory_handle gpu;
	int err = gpu_find(&gpu.gpu, (uintptr_t)address, length);

	*made = NULL;
	if (err == -EFAULT)
		return because(CAUSE_REGISTER_UNMAPPED, EFAULT,
			       "ibv_reg_mr: %zu bytes at %p are more than that allocation of GPU memory has left",
			       length, address);
	if (err || !gpu.gpu)
		return -err;
	leave_fast_inline(pd->hca);
	*made = mr_add_kind(pd, address, length, iova, access & ~(unsigned)IBV_ACCESS_ON_DEMAND, MEMORY_GPU, gpu);
	if (*made)
		return 0;
	gpu_release(gpu.gpu);
	return ENOMEM;
}

PUBLIC struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *base, void *addr, size_t length, uint64_t iova,
				       unsigned int access)
{
	struct pd *pd = (struct pd *)base;
	struct mr *mr = NULL;
	int error;

	if (inject_call(CALL_ibv_reg_mr))
		return NULL;
	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	error = pd_check(base) ?: mr_check_access(access) ?: iova + length < length ? EINVAL : mr_add_gpu(&mr, pd, addr, length, iova, access);
	if (!error && !mr)
		error = check_memory(addr, length, access);
	if (error)
		return fail_null(error);
	if (!mr)
		mr = mr_add(pd, addr, length, iova, access);
	return mr ? &mr->base : NULL;
}

PUBLIC struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

PUBLIC struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

/* The region of an ibv_mr; an import refers to it by number. NULL if there is none. */
static struct mr *named_by(const struct ibv_mr *base)
{
	return pool_at(&context_of(base->context)->hca->mrs, base->handle);
}

static bool mr_is_import(const struct ibv_mr *base)
{
	return &named_by(base)->base != base;
}

static int rereg_failed(int code, int error)
{
	errno = error;
	return code;
}

/* On failure the region is unchanged, which is more than the man page guarantees for IBV_REREG_MR_ERR_CMD. */
PUBLIC int ibv_rereg_mr(struct ibv_mr *base, int flags, struct ibv_pd *new_pd, void *addr, size_t length, int access)
{
	struct pd *old, *pd = (struct pd *)base->pd;
	struct mr *mr = named_by(base);
	unsigned rights;
	uint64_t iova;
	bool fixed;
	int error;

	if (inject_call(CALL_ibv_rereg_mr))
		return IBV_REREG_MR_ERR_CMD;
	if (!mr)
		return rereg_failed(IBV_REREG_MR_ERR_INPUT, ENOENT);
	old = mr->pd;
	iova = mr->iova;
	rights = mr->access;
	fixed = mr->backing || (mr->kind != MEMORY_PLAIN && mr->kind != MEMORY_PAGED);
	if (mr_is_import(base) || !flags || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) ||
	    ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!length || !addr)) ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) && !new_pd) || ((flags & IBV_REREG_MR_CHANGE_ACCESS) && access < 0))
		return rereg_failed(IBV_REREG_MR_ERR_INPUT, EINVAL);
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		rights = (unsigned)access;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		pd = (struct pd *)new_pd;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		iova = rights & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr;
	} else {
		addr = mr->memory;
		length = mr->length;
	}
	error = fixed || pd->base.context != base->context ? EINVAL : mr_check_access(rights) ?: check_memory(addr, length, rights);
	if (error)
		return rereg_failed(IBV_REREG_MR_ERR_CMD, error);
	if (hooks_any())
		check_reregisters(base);
	error = -mr_reregister(mr, pd, addr, length, iova, rights);
	if (error)
		return rereg_failed(IBV_REREG_MR_ERR_CMD, error);
	if (hooks_any())
		check_remade(CHECK_MR, mr, length, pd);
	atomic_fetch_add_explicit(&mr->pd->users, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&old->users, 1, memory_order_release);
	return 0;
}

/* Closes a region of a dma-buf, and the mapping of it. */
static int deregister_dmabuf(struct mr *mr)
{
	uint64_t before = (uintptr_t)mr->memory & ((uint64_t)sysconf(_SC_PAGESIZE) - 1), length = mr->length;
	char *memory = mr->memory;
	int fd = mr->handle.dmabuf, error = mr_deregister(mr);

	if (error)
		return error;
	munmap(memory - before, length + before);
	close(fd);
	return 0;
}

PUBLIC int ibv_dereg_mr(struct ibv_mr *base)
{
	union memory_handle handle;
	_Atomic uint32_t *backing;
	struct mr *mr;
	struct pd *pd;
	bool is_gpu;
	int error;

	if (inject_call(CALL_ibv_dereg_mr))
		return errno;
	if (!base)
		return fail(EINVAL);
	mr = named_by(base);
	if (!mr && hooks_any())
		check_dead(CHECK_MR, base, "deregistered again");
	if (!mr)
		return fail(ENOENT);
	pd = mr->pd;
	backing = mr->backing;
	if (hooks_any())
		check_deregisters(&mr->base);
	if (!mr->windows)
		check_gone(CHECK_MR, mr);
	else /* it stays */
		check_busy_as(CHECK_MR, mr, "a memory window is bound to it");
	handle = mr->handle;
	is_gpu = mr->kind == MEMORY_GPU;
	error = mr->kind == MEMORY_DMABUF ? deregister_dmabuf(mr) : mr_deregister(mr);
	if (error)
		return fail(-error);
	if (&mr->base != base)
		free(base);
	if (is_gpu)
		gpu_release(handle.gpu);
	adapter_give(&device_of_pd(pd)->regions);
	if (backing)
		atomic_fetch_sub_explicit(backing, 1, memory_order_release);
	atomic_fetch_sub_explicit(&pd->users, 1, memory_order_release);
	return 0;
}

/* An import has the keys but no address, which only the owner of the memory knows. */
PUBLIC struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct mr *mr = pd ? pool_at(&context_of(pd->context)->hca->mrs, handle) : NULL;
	struct ibv_mr *import = NULL;
	uint32_t rkey = mr && !mr->type ? atomic_load_explicit(&mr->rkey, memory_order_acquire) : 0;

	mr = rkey ? mr_get(context_of(pd->context)->hca, rkey) : NULL;
	if (!mr)
		return fail_null(pd ? ENOENT : EINVAL);
	if (context_same(mr->base.context, pd->context)) {
		import = malloc(sizeof(*import));
		if (import)
			*import = (struct ibv_mr){.context = pd->context,
						  .pd = pd,
						  .length = mr->base.length,
						  .handle = handle,
						  .lkey = rkey ^ context_of(pd->context)->hca->keys.lkey,
						  .rkey = rkey};
	} else {
		errno = ENOENT;
	}
	mr_put(mr);
	return import;
}

PUBLIC void ibv_unimport_mr(struct ibv_mr *import)
{
	if (import && mr_is_import(import))
		free(import);
}

void table_add_mr(struct verbs_context *v)
{
	v->alloc_null_mr = alloc_null_mr;
}
