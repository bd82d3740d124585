/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of verbs: unit; purpose; what was measured, and where. */
#ifndef UROCE_VERBS_TUNED_H
#define UROCE_VERBS_TUNED_H

#include "base/clock.h"

#define FOUND_MANY                                                                                                    \
	4u			 /* polls that found completions for each that makes progress: with one processor the \
				  * helper would take over, and keep the CQ full */
#define FOUND_SURE   8u		 /* events found at once, after which the program waits for the descriptor itself */
#define ANSWERS	     (10 * MSEC) /* ns for ACKs before a move to ERR: as another process may keep the processor */
#define ANSWERS_VAIN (1000 * MSEC) /* ns without such waits after one that failed, as there may be many QPs */
#define OWNER_TIME   (5 * SEC)	   /* ns for the owner of a shared QP to answer, unless it is stopped */

#endif
