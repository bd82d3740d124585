/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of uroce other than the helper. */
#ifndef UROCE_THREAD_H
#define UROCE_THREAD_H

/* Starts a detached thread that takes none of the program's signals. 0 or -errno. Any thread may call. */
int thread_start(void *(*run)(void *arg), void *arg);

#endif
