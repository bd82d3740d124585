/* SPDX-License-Identifier: BSD-2-Clause */
/* Paging on demand: ibv_advise_mr(3). */
#include <sys/mman.h>
#include <unistd.h>

#include "device/front.h"
#include "memory/guarded.h"
#include "object/mr.h"
#include "verbs/table.h"

static int check_region(const struct mr *mr, const struct pd *pd, const struct ibv_sge *sge, bool write)
{
	if (mr->type || !(mr->access & IBV_ACCESS_ON_DEMAND))
		return EINVAL;
	if (mr->pd != pd || (write && !(mr->access & IBV_ACCESS_LOCAL_WRITE)))
		return EPERM;
	return mr_allows(mr, pd, sge->addr, sge->length, 0) ? 0 : EFAULT;
}

/* Finds the memory of an SGE. The region may be deregistered during the call, since the application owns the memory. 0
 * or errno. */
static int find_memory(struct pd *pd, const struct ibv_sge *sge, bool write, char **at)
{
	struct mr *mr = mr_get_local(pd->hca, sge->lkey);
	int error;

	if (!mr)
		return ENOENT;
	error = check_region(mr, pd, sge, write);
	*at = mr_at(mr, sge->addr);
	mr_put(mr);
	return error;
}

/* A hint; its result is ignored. */
static void begin_to_fetch(char *at, size_t length)
{
	size_t before = (uintptr_t)at & ((size_t)sysconf(_SC_PAGESIZE) - 1);

	madvise(at - before, length + before, MADV_WILLNEED);
}

/* All entries are checked first. The prefetch is best effort, unless the caller asked to wait for it. */
static int advise_mr(struct ibv_pd *base, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list,
		     uint32_t count)
{
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	struct pd *pd = base ? pd_domain((struct pd *)base) : NULL;
	char *at;
	int error = 0;

	if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return fail(ENOTSUP);
	if (!pd || (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) || !count || !list)
		return fail(EINVAL);
	for (uint32_t i = 0; i < count && !error; i++)
		error = find_memory(pd, &list[i], write, &at);
	for (uint32_t i = 0; i < count && !error && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT; i++) {
		error = find_memory(pd, &list[i], write, &at);
		if (!error && !(flags & IBV_ADVISE_MR_FLAG_FLUSH))
			begin_to_fetch(at, list[i].length);
		else if (!error && !guarded_populate(at, list[i].length, write))
			error = EFAULT;
	}
	return error ? fail(error) : 0;
}

void table_add_odp(struct verbs_context *v)
{
	v->advise_mr = advise_mr;
}
