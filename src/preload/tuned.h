/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of the preloaded library: unit; purpose; what was measured. */
#ifndef UROCE_PRELOAD_TUNED_H
#define UROCE_PRELOAD_TUNED_H

#define CARRY_BYTES	(64 << 10) /* bytes of one read and write by a bridge, sendfile() or splice(): a pipe's size */
#define BRIDGE_PATIENCE 17000	   /* ms without progress until a program that ends drops what it wrote: PART_TIME */

#endif
