/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices of a program: those that UROCE_DEVICES names, or one for each usable interface. Any thread may call. */
#ifndef UROCE_DEVICE_DEVICE_LIST_H
#define UROCE_DEVICE_DEVICE_LIST_H

#include "device/devices.h"

struct device;

/* Writes the present devices to `list`, an array of DEVICE_LIMIT entries. Returns their number, or -errno. */
int devices_list(struct device **list);
/* The device of that name, or NULL. */
struct device *device_named(const char *name);

#endif
