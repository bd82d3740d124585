/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_YIELD_H
#define UROCE_YIELD_H

/* As sched_yield(2), which is known as the program's own: library/yield.c. Any thread. */
void processor_yield(void);

#endif
