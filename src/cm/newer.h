/* SPDX-License-Identifier: BSD-2-Clause */
/* API of librdmacm since RDMACM_1.4 (rdma-core 57) that Debian 12's headers lack. The values are fixed by rdma-core. */
#ifndef UROCE_NEWER_H
#define UROCE_NEWER_H

#include <rdma/rdma_cma.h>

enum {
	EVENT_ADDRINFO_RESOLVED = RDMA_CM_EVENT_TIMEWAIT_EXIT + 1,
	EVENT_ADDRINFO_ERROR,
	EVENT_USER,

	FLAG_SA = 0x10, /* rdma_addrinfo: ask the subnet administrator */
};

/* Resolves like rdma_getaddrinfo() and posts EVENT_ADDRINFO_RESOLVED; synchronous without a channel. 0, or -1 with
 * errno: EBUSY: the previous result has not been fetched; EOPNOTSUPP: RoCE has no subnet administrator; else as
 * getaddrinfo(3). */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
/* Returns the result once; free it with rdma_freeaddrinfo(). -1 with ENOENT if there is none. */
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
/* Posts an event of the program, EVENT_USER, to the id's channel; `arg` is in the first eight bytes of `param`. Any
 * thread may call. -1 with EINVAL for another event type, or without an id. */
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg);

#endif
