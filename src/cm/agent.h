/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent: packets, timer and addresses of this process's protocol machine (cm.h). Started for the first
 * rdma_cm_id that needs it; lives as long as the process. Any thread may call. */
#ifndef UROCE_CM_AGENT_H
#define UROCE_CM_AGENT_H

#include "cm/cm.h"

/* Enables CM messages from and to the address `local`. 0; -errno of loop_attach(); or -ENODEV if no device is open.
 * Blocks. */
int agent_attach(const union ibv_gid *local) EXCLUDES(cm.lock);
/* The same for an address of device `d` (NULL: none), as devices_each() calls it. */
struct cm_device;
int agent_attach_of(const union ibv_gid *local, const struct cm_device *d) EXCLUDES(cm.lock);

/* Calls guardian_start(). Blocks. */
void agent_guard(void) EXCLUDES(cm.lock);

/* Operations of the files above the agent. */
struct agent_ops {
	const struct machine_ops *machine; /* handles the machine's events */
	/* checks what is due, and returns the time of the next call (ns), or NEVER. With cm.lock */
	uint64_t (*look)(uint64_t now);
	void (*leave)(void);  /* at exit: releases all connections. With cm.lock */
	void (*forget)(void); /* in a child after fork(): drops ids and ports, which are the parent's. With cm.lock */
};
/* Sets the operations, once, before the first connection. */
void agent_serve(const struct agent_ops *ops);

/* machine_ops.send and machine_ops.deadline. With cm.lock. */
void agent_send(struct machine *m, const struct cm_address *to, const uint8_t mad[CM_MAD_BYTES]);
void agent_deadline(struct machine *m, uint64_t when);

/* Has agent_ops.look() called at `when` (ns) or earlier. */
void agent_look_at(uint64_t when) REQUIRES(cm.lock);

#endif
