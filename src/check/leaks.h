/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that are left at the end. */
#ifndef UROCE_CHECK_LEAKS_H
#define UROCE_CHECK_LEAKS_H

/* Reports them, those of one kind that one place has made together. Without locks. */
void leaks_report(void);

#endif
