/* SPDX-License-Identifier: BSD-2-Clause */
/* Effects of fault injection on ports, devices and processes, by one timer of the loop, without locks held. */
#ifndef UROCE_DEVICE_FAULTS_H
#define UROCE_DEVICE_FAULTS_H

/* Reads the rules at the first call. 0, or -EINVAL if they are wrong, which has been logged. */
int faults_read(void);
/* Called after a device is opened, and before it is closed; the loop exists in between. */
void faults_begin(void);
void faults_end(void);

#endif
