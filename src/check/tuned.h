/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of check: unit; purpose; what was measured. docs/check.md has the costs. */
#ifndef UROCE_CHECK_TUNED_H
#define UROCE_CHECK_TUNED_H

/* stacks */
#define RULES 2048 /* return addresses whose unwind rule is kept: 32 KiB; reading one again takes 120 ns */

#endif
