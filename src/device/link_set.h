/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce link`: takes ports down and up. */
#ifndef UROCE_DEVICE_LINK_SET_H
#define UROCE_DEVICE_LINK_SET_H

#include <stdbool.h>
#include <stddef.h>

struct device;

/* Takes the port of a device down or up, and tells all processes. 0; -ENODEV: there is no such device; or another
 * -errno. For the command `uroce link`, which finds it by its name. */
int uroce_link_set(const char *device, bool up);

/* For tests: the file's new text, to be freed: the lines of other devices stay, the device's own is new, or gone. NULL:
 * no memory. */
char *links_rewritten(const char *text, struct device *d, bool up, size_t *length);

#endif
