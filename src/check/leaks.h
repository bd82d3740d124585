/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that are never destroyed. */
#ifndef UROCE_CHECK_LEAKS_H
#define UROCE_CHECK_LEAKS_H

/* Reports objects left at the end; those of one kind from one place are one finding. Without locks. */
void leaks_report(void);

#endif
