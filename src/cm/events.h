/* SPDX-License-Identifier: BSD-2-Clause */
/* The events of the protocol machine, made events of rdma_cm ids. */
#ifndef UROCE_CM_EVENTS_H
#define UROCE_CM_EVENTS_H

#include "cm/state.h"

/* What the machine calls: set by front.c. */
extern const struct machine_ops events_ops;

#endif
