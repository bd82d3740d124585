/* SPDX-License-Identifier: BSD-2-Clause */
/* The start and the end of a check, and fork(). */
#ifndef UROCE_CHECK_START_H
#define UROCE_CHECK_START_H

/* Reads UROCE_CHECK; only the first call has an effect. Any thread. */
void check_start(void);
/* ibv_fork_init() was called. */
void check_fork_prepared(void);

#endif
