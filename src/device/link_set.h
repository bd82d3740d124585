/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce link`: takes ports down and up. */
#ifndef UROCE_DEVICE_LINK_SET_H
#define UROCE_DEVICE_LINK_SET_H

#include <stdbool.h>
#include <stddef.h>

struct device;

/* Takes the port of a device down or up, and notifies all processes. 0; -ENODEV without such a device; or another
 * -errno. `uroce link` finds it by this name. */
int uroce_link_set(const char *device, bool up);

/* New text of the file, for the caller to free: the lines of other devices stay, the device's own is new, or gone.
 * NULL without memory. Public for tests. */
char *links_rewritten(const char *text, struct device *d, bool up, size_t *length);

#endif
