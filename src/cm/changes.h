/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes of devices, for the ids on them. */
#ifndef UROCE_CM_CHANGES_H
#define UROCE_CM_CHANGES_H

struct device;

/* Posts events for a changed device (bits such as DEVICE_GONE) or, if NULL, for devices that may be new. For
 * monitor_follow(). */
void changes_follow(struct device *d, unsigned changes);

#endif
