/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of the preloaded library: unit; purpose; what was measured. */
#ifndef UROCE_PRELOAD_TUNED_H
#define UROCE_PRELOAD_TUNED_H

#include "base/clock.h"
#include "rsocket/tuned.h"

#define CARRY_BYTES (64 << 10) /* bytes of one read and write by a bridge, sendfile() or splice(): a pipe's size */
/* ms without progress until a program that ends drops what it wrote: as an rsocket does */
#define BRIDGE_PATIENCE (int)(PART_TIME / MSEC)

#endif
