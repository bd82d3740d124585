/* SPDX-License-Identifier: BSD-2-Clause */
/* A working directory in our trees. The kernel's is the nearest existing directory above; an executed program gets
 * ours by a variable. Any thread may call. */
#ifndef UROCE_SYSFS_CWD_H
#define UROCE_SYSFS_CWD_H

/* Absolute path, never freed; NULL if the kernel's is the working directory. */
const char *cwd_of_ours(void);
/* Makes a directory of ours the working directory. 0, or -1 with ENOMEM. */
int cwd_set(const char *path);
/* Passes on the result of a call that changes the kernel's directory: 0 makes that the working directory. */
int cwd_left(int result);

#endif
