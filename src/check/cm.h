/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management, as far as it orders accesses of memory. Behind hooks_any(). Any thread, without locks. */
#ifndef UROCE_CHECK_CM_H
#define UROCE_CHECK_CM_H

/* A message is about to be sent. */
void check_tells(void);
/* An event was fetched: its sender may have known of anything. */
void check_heard(void);

#endif
