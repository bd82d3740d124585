/* SPDX-License-Identifier: BSD-2-Clause */
/* A working directory that only we have. The kernel's is the nearest directory above that is really there; a program
 * that is executed learns of ours by a variable. Any thread may call. */
#ifndef UROCE_SYSFS_CWD_H
#define UROCE_SYSFS_CWD_H

/* An absolute path that stays; NULL: the kernel's is the working directory. */
const char *cwd_of_ours(void);
/* The directory is ours from now on. 0, or -1 and ENOMEM. */
int cwd_set(const char *path);
/* The kernel's call that changes it had that result, which is returned: if it is 0, the directory is the kernel's. */
int cwd_left(int result);

#endif
