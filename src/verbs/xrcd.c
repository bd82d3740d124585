/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "check/lifetime.h"
#include "check/objects.h"
#include "device/front.h"
#include "fault/inject.h"
#include "object/hca.h"
#include "object/xrcd.h"
#include "port/domain.h"
#include "verbs/context.h"
#include "verbs/table.h"

/* The XRC domain that a file stands for. 0 or errno. */
static int name_of(struct hca *hca, int fd, struct xrcd_name *name)
{
	struct stat file;

	*name = (struct xrcd_name){XRCD_PRIVATE, hca_random(hca)};
	if (fd == -1)
		return 0;
	if (fstat(fd, &file))
		return errno;
	*name = (struct xrcd_name){file.st_dev, file.st_ino};
	return 0;
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct context *c = context_of(context);
	struct xrcd *xrcd;
	int error;

	if (inject_call(CALL_ibv_open_xrcd))
		return NULL;
	if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED)
		return fail_null(EOPNOTSUPP);
	if ((attr->comp_mask & needed) != needed || attr->oflags & ~(O_CREAT | O_EXCL))
		return fail_null(EINVAL);
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return fail_null(ENOMEM);
	error = name_of(c->hca, attr->fd, &xrcd->name);
	if (!error && attr->fd != -1)
		error = -domain_open(&xrcd->name, attr->oflags & O_CREAT, attr->oflags & O_EXCL);
	if (error) {
		free(xrcd);
		return fail_null(error);
	}
	xrcd->base.context = context;
	xrcd->hca = c->hca;
	atomic_fetch_add_explicit(&c->objects, 1, memory_order_relaxed);
	check_made(CHECK_XRCD, xrcd, 0, context);
	return &xrcd->base;
}

static int close_xrcd(struct ibv_xrcd *base)
{
	struct xrcd *xrcd = (struct xrcd *)base;

	if (!xrcd)
		return fail(EINVAL);
	if (atomic_load_explicit(&xrcd->users, memory_order_acquire)) {
		check_busy(CHECK_XRCD, xrcd);
		return fail(EBUSY);
	}
	check_gone(CHECK_XRCD, xrcd);
	if (xrcd->name.device != XRCD_PRIVATE)
		domain_close(&xrcd->name);
	atomic_fetch_sub_explicit(&context_of(base->context)->objects, 1, memory_order_release);
	free(xrcd);
	return 0;
}

void table_add_xrcd(struct verbs_context *v)
{
	v->open_xrcd = open_xrcd;
	v->close_xrcd = close_xrcd;
}
