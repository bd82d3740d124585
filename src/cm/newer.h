/* SPDX-License-Identifier: BSD-2-Clause */
/* What librdmacm has had since RDMACM_1.4 (rdma-core 57), which Debian 12's headers do not know: the values are fixed
 * there. */
#ifndef UROCE_NEWER_H
#define UROCE_NEWER_H

#include <rdma/rdma_cma.h>

enum {
	EVENT_ADDRINFO_RESOLVED = RDMA_CM_EVENT_TIMEWAIT_EXIT + 1,
	EVENT_ADDRINFO_ERROR,
	EVENT_USER,

	FLAG_SA = 0x10, /* of rdma_addrinfo: ask the subnet's administrator */
};

/* Resolves as rdma_getaddrinfo() does, and tells so by EVENT_ADDRINFO_RESOLVED; without a channel when it returns. 0,
 * or -1 with errno: EBUSY what was resolved before has not been fetched; EOPNOTSUPP RoCE has no administrator to ask;
 * else getaddrinfo's. */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
/* What was resolved, once: for rdma_freeaddrinfo(). -1 with ENOENT: nothing. */
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
/* An event of the program's own, EVENT_USER, behind those that wait in the id's channel; `arg` comes in the first eight
 * bytes of its `param`. From any thread. -1 with EINVAL: another event, or no id. */
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg);

#endif
