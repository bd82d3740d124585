/* SPDX-License-Identifier: BSD-2-Clause */
/* The communication manager of this process: the machine (machine.h), and what brings it messages, time and
 * addresses. It comes into being with the first rdma_cm_id that needs it, and lasts as long as the process.
 *
 * `cm.lock` guards the machine and everything of this front that is not an application's own: ids, event
 * channels, bound ports. Messages arrive with rx ownership held (loop/gsi.h), so nobody may open a
 * device, attach an address or claim a service with it held. */
#ifndef UROCE_AGENT_H
#define UROCE_AGENT_H

#include "cm/machine.h"

extern struct machine cm;

/* Ready to send from `local` and to receive there. 0 or -errno: as loop_attach() has it, or -ENODEV: no
 * device is open. Blocks. */
int agent_attach(const union ibv_gid *local) EXCLUDES(cm.lock);

/* ns, as all of uroce has it. */
uint64_t agent_now(void);

/* Of 32 bits, unpredictable. */
uint32_t agent_random(void);

/* events.c: what the machine tells. */
extern const struct machine_ops agent_ops;
void agent_send(struct machine *m, const struct cm_address *to, const uint8_t mad[CM_MAD_BYTES]);
void agent_deadline(struct machine *m, uint64_t when);

/* resolve.c: looks for those local peers that it is time to look for. When it wants to be called again; NEVER: not. */
uint64_t resolve_look(uint64_t now) REQUIRES(cm.lock);
/* It is called then, or before. */
void agent_look_at(uint64_t when) REQUIRES(cm.lock);

/* At exit. */
void ids_release_all(void) REQUIRES(cm.lock);
/* In a child after fork: what the parent has is the parent's. */
void ids_forget(void) REQUIRES(cm.lock);
void ports_forget(void);
void devices_forget(void);

#endif
