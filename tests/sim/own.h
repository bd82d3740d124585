/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the simulation itself: it never runs out, and a shortage (shortage.h) does not reach it. */
#ifndef SIM_OWN_H
#define SIM_OWN_H

#include <stddef.h>

/* Not 0: the simulation itself allocates. Volatile: compilers know that malloc() looks at no variable. */
extern volatile unsigned own_depth;

/* As realloc() and as aligned_alloc() of 64; the program ends if there is no memory. */
void *own(void *old, size_t size);
void *own_aligned(size_t size);

#endif
