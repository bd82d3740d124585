/* SPDX-License-Identifier: BSD-2-Clause */
/* What fault injection does to ports, devices and processes: by one timer of the loop, with no lock held. */
#ifndef UROCE_DEVICE_FAULTS_H
#define UROCE_DEVICE_FAULTS_H

/* Reads the rules, at the first call. 0, or -EINVAL: they are wrong, which has been logged. */
int faults_read(void);
/* Called when a device has been opened, and before it is closed: in between there is a loop. */
void faults_begin(void);
void faults_end(void);

#endif
