/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups of UD queue pairs. RoCE has no LIDs, so a given LID is ignored. */
#include "device/device.h"
#include "device/front.h"
#include "fault/inject.h"
#include "port/group.h"
#include "verbs/context.h"

/* The multicast group of a GID on a device. 0 or errno. */
static int group_of(struct device *d, const struct ibv_qp *qp, const union ibv_gid *gid, union ibv_gid *group)
{
	union ibv_gid from;

	if (!qp || !gid || qp->qp_type != IBV_QPT_UD || !address_is_multicast(gid))
		return EINVAL;
	*group = *gid;
	/* the same mapping as path_resolve() uses for senders */
	if (address_embeds_group(gid) && device_first_gid(d, true, &from) >= 0)
		*group = address_of_group(gid);
	return 0;
}

PUBLIC int ibv_attach_mcast(struct ibv_qp *base, const union ibv_gid *gid, uint16_t lid)
{
	struct device *d = base ? context_of(base->context)->device : NULL;
	union ibv_gid group;
	int error = group_of(d, base, gid, &group);

	if (inject_call(CALL_ibv_attach_mcast))
		return errno;
	if (error)
		return fail(error);
	error = -loop_join(base->qp_num, &group, d->netif_index);
	if (error == EEXIST)
		return 0; /* as in the kernel */
	if (error)
		return fail(error);
	atomic_fetch_add_explicit(&((struct qp *)base)->verbs.groups, 1, memory_order_relaxed);
	return 0;
}

PUBLIC int ibv_detach_mcast(struct ibv_qp *base, const union ibv_gid *gid, uint16_t lid)
{
	struct device *d = base ? context_of(base->context)->device : NULL;
	union ibv_gid group;
	int error = group_of(d, base, gid, &group);

	if (inject_call(CALL_ibv_detach_mcast))
		return errno;
	if (!error)
		error = -loop_leave(base->qp_num, &group, d->netif_index);
	if (error)
		return fail(error);
	atomic_fetch_sub_explicit(&((struct qp *)base)->verbs.groups, 1, memory_order_relaxed);
	return 0;
}
