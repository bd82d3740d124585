/* SPDX-License-Identifier: BSD-2-Clause */
/* A hint for a program that asks for a missing device. */
#ifndef UROCE_DEVICE_HINT_H
#define UROCE_DEVICE_HINT_H

struct device;

/* Warns, at most once per process, if the program names a device that is not in its list. */
void hint_missing(struct device **list, int count);

#endif
