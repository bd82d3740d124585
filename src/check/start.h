/* SPDX-License-Identifier: BSD-2-Clause */
/* Start and end of a check, and fork(). */
#ifndef UROCE_CHECK_START_H
#define UROCE_CHECK_START_H

/* Reads UROCE_CHECK. Only the first call has an effect. Any thread. */
void check_start(void);
/* Called by ibv_fork_init(). */
void check_fork_prepared(void);

#endif
