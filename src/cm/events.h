/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversion of the protocol machine's events to events of rdma_cm ids. */
#ifndef UROCE_CM_EVENTS_H
#define UROCE_CM_EVENTS_H

#include "cm/state.h"

/* Operations that front.c gives to the machine. */
extern const struct machine_ops events_ops;

#endif
