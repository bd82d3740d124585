/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of connection management, as they order accesses to memory. Behind hooks_any(). Any thread, without
 * locks. */
#ifndef UROCE_CHECK_CM_H
#define UROCE_CHECK_CM_H

/* Notes that a message is about to be sent. */
void check_tells(void);
/* Notes that an event was fetched; its sender may have known of any access. */
void check_heard(void);

#endif
