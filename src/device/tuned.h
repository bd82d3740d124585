/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of devices: unit; purpose; what was measured. */
#ifndef UROCE_DEVICE_TUNED_H
#define UROCE_DEVICE_TUNED_H

#include "base/clock.h"

#define SPEED_DEFAULT  25000	   /* Mb/s of interfaces that report no speed: loopback and veth */
#define LINKS_BYTES    (64u << 10) /* bytes of the file of ports that are down, at most: more than all devices need */
#define LINKS_PATIENCE (2 * SEC)   /* ns for another process that writes that file: it may be stopped */

#endif
