/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of later rdma-core versions than Debian 12's. Without them, a program linked with a later libibverbs would call
 * that library with our objects. */
#include "library/newer.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "device/attributes.h"
#include "device/front.h"
#include "verbs/context.h"

struct buf {
	struct ibv_pd *pd;
	char *memory;
	size_t size;
};

static bool is_within(const struct buf *buf, const void *addr, size_t length)
{
	uintptr_t begin = (uintptr_t)buf->memory, at = (uintptr_t)addr;

	return at >= begin && at - begin <= buf->size && length <= buf->size - (at - begin);
}

PUBLIC struct ibv_mr *reg_mr_ex(struct ibv_pd *pd, const struct mr_init_attr *attr)
{
	const uint64_t memory = MR_ATTR_IOVA | MR_ATTR_ADDR | MR_ATTR_BUF, fd = MR_ATTR_FD | MR_ATTR_FD_OFFSET;
	uint64_t mask = attr ? attr->comp_mask : 0;
	struct ibv_mr *mr;

	if (!pd)
		return fail_null(EINVAL);
	if (mask & MR_ATTR_DMAH)
		return fail_null(EOPNOTSUPP);
	if ((mask & fd) == fd && !(mask & ~(fd | MR_ATTR_IOVA))) {
		mr = ibv_reg_dmabuf_mr(pd, attr->fd_offset, attr->length,
				       mask & MR_ATTR_IOVA ? attr->iova : attr->fd_offset, attr->fd, attr->access);
		if (mr)
			mr->addr = (void *)(uintptr_t)attr->fd_offset;
		return mr;
	}
	if (!(mask & MR_ATTR_ADDR) || (mask & ~memory))
		return fail_null(EINVAL);
	if ((mask & MR_ATTR_BUF) &&
	    (!attr->buf || attr->buf->pd != pd || !is_within(attr->buf, attr->addr, attr->length)))
		return fail_null(EINVAL);
	return ibv_reg_mr_iova2(pd, attr->addr, attr->length, mask & MR_ATTR_IOVA ? attr->iova : (uintptr_t)attr->addr,
				(unsigned)attr->access);
}

PUBLIC void *alloc_buf(struct ibv_pd *pd, size_t size, struct buf **handle)
{
	struct buf *buf;

	if (!pd || !size || !handle)
		return fail_null(EINVAL);
	buf = malloc(sizeof(*buf));
	if (!buf)
		return NULL;
	*buf = (struct buf){pd, mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), size};
	if (buf->memory == MAP_FAILED) {
		free(buf);
		return NULL;
	}
	*handle = buf;
	return buf->memory;
}

PUBLIC void free_buf(struct buf *buf)
{
	if (!buf)
		return;
	munmap(buf->memory, buf->size);
	free(buf);
}

PUBLIC struct ibv_mr *reg_buf_mr(struct ibv_pd *pd, struct buf *buf, void *addr, size_t length, int access)
{
	return reg_mr_ex(pd, &(struct mr_init_attr){.length = length,
						    .access = access,
						    .addr = addr,
						    .buf = buf,
						    .comp_mask = MR_ATTR_ADDR | MR_ATTR_BUF});
}

PUBLIC int export_buf_dmabuf_fd(struct buf *buf)
{
	return fail_minus(buf ? ENODATA : EINVAL);
}

PUBLIC int query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
	struct port_rate rate;

	if (!context || !speed || port != PORT)
		return fail(EINVAL);
	device_rate(context_of(context)->device, &rate);
	*speed = rate.mbps / 100;
	return 0;
}

/* Calls that are not supported, with any arguments: NO returns an errno, NO_OBJECT an object, NO_FD a descriptor. */
#define ABSENT(type, name, ...)                     \
	type no_##name(void) __asm__("ibv_" #name); \
	PUBLIC type no_##name(void)                 \
	{                                           \
		return __VA_ARGS__(EOPNOTSUPP);     \
	}
#define NO(name)	ABSENT(int, name, fail)
#define NO_OBJECT(name) ABSENT(void *, name, fail_null)
#define NO_FD(name)	ABSENT(int, name, fail_minus)

NO_OBJECT(alloc_dmah)
NO(dealloc_dmah)
NO_FD(dm_export_dmabuf_fd)
NO_OBJECT(create_comp_cntr)
NO(destroy_comp_cntr)
NO(inc_comp_cntr)
NO(inc_err_comp_cntr)
NO(qp_attach_comp_cntr)
NO(read_comp_cntr)
NO(read_err_comp_cntr)
NO(set_comp_cntr)
NO(set_err_comp_cntr)
int no_query_comp_cntr_caps(void) __asm__("_ibv_query_comp_cntr_caps");
PUBLIC int no_query_comp_cntr_caps(void)
{
	return fail(EOPNOTSUPP);
}
