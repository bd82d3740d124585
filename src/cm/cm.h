/* SPDX-License-Identifier: BSD-2-Clause */
/* The protocol machine of this process (machine.h), with its clock and its random numbers.
 *
 * `cm.lock` guards the machine and all state of cm/ that the application does not own: ids, event channels, bound
 * ports. Messages are delivered with rx ownership held (port/gsi.h), so a thread that holds `cm.lock` must not open a
 * device, attach an address or claim a service. */
#ifndef UROCE_CM_CM_H
#define UROCE_CM_CM_H

#include "cm/machine.h"
#include "cm/state.h"

extern struct machine cm;

/* ns, the clock of all of uroce. Any thread may call. */
uint64_t cm_now(void);
/* 32 random bits that a peer cannot predict. Any thread may call. */
uint32_t cm_random(void);

#endif
