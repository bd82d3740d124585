/* SPDX-License-Identifier: BSD-2-Clause */
/* Import of objects into another context: ibv_import_device(3) and related calls. A context's cmd_fd is a small file
 * that identifies the context. It can be duplicated within the process. In another process no context matches it, since
 * the objects are in this process's memory. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/front.h"
#include "base/memfd.h"
#include "object/mr.h"
#include "verbs/context.h"

#define MAGIC 0x6f7263652d637478ull

struct label {
	uint64_t magic, group;
	struct device *device;
	pid_t pid;
	uint32_t zero; /* explicit padding, since the whole struct is written */
};

int context_label(struct context *c)
{
	static _Atomic uint64_t groups;
	struct label label = {
		.magic = MAGIC,
		.group = atomic_fetch_add_explicit(&groups, 1, memory_order_relaxed) + 1,
		.device = c->device,
		.pid = getpid(),
	};
	int fd = memfd_new("uroce context", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	err = memfd_fill(fd, &label, sizeof(label));
	/* where no file may be that long the context has no label: ibv_import_device() cannot find it */
	if ((err && err != -EFBIG) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		close(fd);
		return -ENOSPC;
	}
	c->group = label.group;
	c->verbs.context.cmd_fd = fd;
	return 0;
}

PUBLIC struct ibv_context *ibv_import_device(int fd)
{
	struct ibv_context *context;
	struct label label;

	errno = 0;
	if (pread(fd, &label, sizeof(label), 0) != sizeof(label) || label.magic != MAGIC)
		return fail_null(errno == EBADF ? EBADF : EINVAL);
	if (label.pid != getpid())
		return fail_null(EOPNOTSUPP);
	context = ibv_open_device(&label.device->base);
	if (!context)
		return NULL;
	close(context->cmd_fd);
	context->cmd_fd = fd; /* owned by the context from now on: the man page requires the caller to duplicate it */
	context_of(context)->group = label.group;
	return context;
}

PUBLIC struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct pd *of = context ? pd_get(context, handle) : NULL, *pd;

	if (!of)
		return fail_null(context ? ENOENT : EINVAL);
	pd = calloc(1, sizeof(*pd));
	if (!pd) {
		atomic_fetch_sub_explicit(&of->users, 1, memory_order_release);
		return NULL;
	}
	pd->base.context = context;
	pd->made_in = context;
	pd->base.handle = pd->handle = handle;
	pd->hca = of->hca;
	pd->domain = of;
	return &pd->base;
}

/* Objects that were created with the imported PD may remain. */
PUBLIC void ibv_unimport_pd(struct ibv_pd *base)
{
	struct pd *pd = (struct pd *)base;

	if (!pd || !pd->domain || pd->is_parent)
		return;
	atomic_fetch_sub_explicit(&pd->domain->users, 1, memory_order_release);
	free(pd);
}

/* An import has the keys but no address, which only the owner of the memory knows. */
PUBLIC struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct mr *mr = pd ? pool_at(&context_of(pd->context)->hca->mrs, handle) : NULL;
	struct ibv_mr *import = NULL;
	uint32_t key = mr && !mr->type ? atomic_load_explicit(&mr->key, memory_order_acquire) : 0;

	mr = key ? mr_get(context_of(pd->context)->hca, key) : NULL;
	if (!mr)
		return fail_null(pd ? ENOENT : EINVAL);
	if (context_same(mr->base.context, pd->context)) {
		import = malloc(sizeof(*import));
		if (import)
			*import = (struct ibv_mr){.context = pd->context,
						  .pd = pd,
						  .length = mr->base.length,
						  .handle = handle,
						  .lkey = key,
						  .rkey = key};
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
