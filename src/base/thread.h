/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of our own beside the helper. */
#ifndef UROCE_THREAD_H
#define UROCE_THREAD_H

/* Starts one that takes none of the program's signals and that nobody waits for. 0 or -errno. Any thread may call. */
int thread_start(void *(*run)(void *arg), void *arg);

#endif
