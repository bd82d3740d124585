/* SPDX-License-Identifier: BSD-2-Clause */
/* The process group of an end of `uroce pair`, by /proc. */
#ifndef UROCE_TOOLS_RUN_GROUP_H
#define UROCE_TOOLS_RUN_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The processes of a group, `most` at most. Returns their number. */
size_t group_processes(pid_t group, pid_t *pid, size_t most);

/* True if a process of the group listens at a TCP port or with an rdma_cm_id. Nothing tells of it, so the caller
 * polls. */
bool group_listens(pid_t group);

#endif
