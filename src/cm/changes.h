/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes of devices, as the ids on them follow. */
#ifndef UROCE_CM_CHANGES_H
#define UROCE_CM_CHANGES_H

struct device;

/* For monitor_follow(): the device has changed (DEVICE_GONE and so on); NULL: there may be new ones. Posts events. */
void changes_follow(struct device *d, unsigned changes);

#endif
