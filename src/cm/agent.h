/* SPDX-License-Identifier: BSD-2-Clause */
/* The communication manager of this process: the protocol machine (machine.h) with its packets, timer and addresses. It
 * is created with the first rdma_cm_id that needs it, and lives as long as the process.
 *
 * `cm.lock` guards the machine and all state of this front that the application does not own: ids, event channels,
 * bound ports. Messages are delivered with rx ownership held (port/gsi.h), so a thread that holds `cm.lock` must not
 * open a device, attach an address or claim a service. */
#ifndef UROCE_AGENT_H
#define UROCE_AGENT_H

#include "cm/machine.h"

extern struct machine cm;

/* Makes CM messages possible from and to the address `local`. 0; -errno of loop_attach(); or -ENODEV: no device is
 * open. Blocks. */
int agent_attach(const union ibv_gid *local) EXCLUDES(cm.lock);
/* The same of an address of that device (NULL: of none), for what devices_each() calls. */
struct cm_device;
int agent_attach_of(const union ibv_gid *local, const struct cm_device *d) EXCLUDES(cm.lock);

/* Calls guardian_start(). */
void agent_guard(void) EXCLUDES(cm.lock);

/* ns, the clock of all of uroce */
uint64_t agent_now(void);

/* 32 random bits that a peer cannot predict. */
uint32_t agent_random(void);

/* events.c: handles the machine's events. */
extern const struct machine_ops agent_ops;
void agent_send(struct machine *m, const struct cm_address *to, const uint8_t mad[CM_MAD_BYTES]);
void agent_deadline(struct machine *m, uint64_t when);

/* resolve.c: checks the neighbor (ARP, ND) entries that are due. Returns the time of the next call; NEVER: none. */
uint64_t resolve_look(uint64_t now) REQUIRES(cm.lock);
/* Has resolve_look() called at `when` or earlier. */
void agent_look_at(uint64_t when) REQUIRES(cm.lock);

/* At exit. */
void ids_release_all(void) REQUIRES(cm.lock);
/* In a child after fork(): drop the state, which is the parent's. */
void ids_forget(void) REQUIRES(cm.lock);
void ports_forget(void);
void devices_forget(void);

#endif
