/* SPDX-License-Identifier: BSD-2-Clause */
/* Port attributes: state, MTU, speed, GIDs, partitions. */
#include <string.h>

#include "base/base.h"
#include "base/msan.h"
#include "device/adapter.h"
#include "device/attributes.h"
#include "device/device.h"
#include "device/front.h"
#include "device/monitor.h"
#include "fault/inject.h"
#include "verbs/context.h"
#include "verbs/table.h"

#undef ibv_query_port

/* ibv_port_attr by version: 52 bytes in rdma-core 44, one more field since 49; the exported ibv_query_port() fills the
 * first 48 bytes. */
struct port_attr {
	union {
		struct ibv_port_attr known;
		struct {
			uint8_t of_rdma_core_44[52];
			uint32_t active_speed_ex;
		};
	};
};
static_assert(sizeof(struct port_attr) == 56, "sizeof(struct ibv_port_attr) of rdma-core 49");
#define PORT_ATTR_COMPAT 48

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct port_attr a = {0};

	if (inject_call(CALL_ibv_query_port))
		return errno;
	if (port != PORT || size < PORT_ATTR_COMPAT)
		return fail(EINVAL);
	monitor_look();
	device_port(context_of(context)->device, &a.known);
	a.active_speed_ex = a.known.active_speed;
	memset(attr, 0, size);
	memcpy(attr, &a, min_of(size, sizeof(a)));
	msan_wrote(attr, size);
	return 0;
}

PUBLIC int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port, (struct ibv_port_attr *)attr, PORT_ATTR_COMPAT);
}

static bool read_entry(struct device *d, uint32_t index, struct ibv_gid_entry *e)
{
	*e = (struct ibv_gid_entry){
		.gid_index = index,
		.port_num = PORT,
		.gid_type = IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = (uint32_t)d->netif_index,
	};
	if (!adapter_is_infiniband())
		return device_gid(d, index, &e->gid);
	e->gid_type = IBV_GID_TYPE_IB;
	e->ndev_ifindex = 0;
	return device_port_gid(d, index, &e->gid);
}

/* The caller's ibv_gid_entry may be shorter or longer than ours. */
static void copy_entry(void *out, const struct ibv_gid_entry *e, size_t size)
{
	memset(out, 0, size);
	memcpy(out, e, min_of(size, sizeof(*e)));
	msan_wrote(out, size);
}

PUBLIC int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
			     uint32_t flags, size_t size)
{
	struct device *d = context_of(context)->device;
	struct ibv_gid_entry e;

	if (inject_call(CALL_ibv_query_gid))
		return errno;
	if (port != PORT || index >= device_gid_places() || !size)
		return fail(EINVAL);
	if (flags)
		return fail(EOPNOTSUPP);
	monitor_look();
	if (!read_entry(d, index, &e))
		return fail(ENODATA);
	copy_entry(entry, &e, size);
	return 0;
}

PUBLIC ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
				    uint32_t flags, size_t size)
{
	struct device *d = context_of(context)->device;
	struct ibv_gid_entry e;
	size_t count = 0;

	if (inject_call(CALL_ibv_query_gid))
		return -errno;
	if (flags)
		return -fail(EOPNOTSUPP);
	if (!size)
		return -fail(EINVAL);
	monitor_look();
	for (uint32_t i = 0; i < device_gid_places(); i++) {
		if (!read_entry(d, i, &e))
			continue;
		if (count == max)
			return -fail(EINVAL);
		copy_entry((char *)entries + count++ * size, &e, size);
	}
	return (ssize_t)count;
}

PUBLIC int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	if (inject_call(CALL_ibv_query_gid))
		return -1;
	if (port != PORT || index < 0 || (uint32_t)index >= device_gid_places())
		return fail_minus(EINVAL);
	monitor_look();
	device_port_gid(context_of(context)->device, (uint32_t)index, gid); /* empty entry: zeros */
	msan_wrote(gid, sizeof(*gid));
	return 0;
}

enum private_gid_type { /* returned by ibv_query_gid_type(): RoCE v1 has the same value as InfiniBand */
			PRIVATE_GID_TYPE_IB = 0,
			PRIVATE_GID_TYPE_ROCE_V2 = 1,
};

/* Private to rdma-core, but ibv_devinfo and pyverbs use it. */
PUBLIC int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	if (port != PORT || index >= device_gid_places())
		return fail_minus(EINVAL);
	*type = adapter_is_infiniband() ? PRIVATE_GID_TYPE_IB : PRIVATE_GID_TYPE_ROCE_V2;
	msan_wrote(type, sizeof(*type));
	return 0;
}

PUBLIC int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	int most = adapter_is_infiniband() ? INFINIBAND_PKEYS : 1;

	if (port != PORT || index < 0 || index >= most)
		return fail_minus(EINVAL);
	*pkey = index ? 0 : 0xffff;
	msan_wrote(pkey, sizeof(*pkey));
	return 0;
}

PUBLIC int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	if (port != PORT || pkey != 0xffff)
		return fail_minus(EINVAL);
	return 0;
}

void table_add_port(struct verbs_context *v)
{
	v->query_port = query_port;
}
