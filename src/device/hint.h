/* SPDX-License-Identifier: BSD-2-Clause */
/* A hint for a program that asks for a device that is not there. */
#ifndef UROCE_DEVICE_HINT_H
#define UROCE_DEVICE_HINT_H

struct device;

/* The program reads this list. Says at most once per process that it lacks a device. */
void hint_missing(struct device **list, int count);

#endif
