/* Memory barriers on other threads' behalf: who does something rarely pays, so that those who do something often need none
 * (membarrier(2)). Any thread may call.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_BARRIER_H
#define UROCE_BARRIER_H

#include <stdbool.h>

/* ThreadSanitizer does not know these barriers: where it watches, everybody makes his own. */
#if defined(__SANITIZE_THREAD__)
#define BARRIER_KNOWN false
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BARRIER_KNOWN false
#endif
#endif
#ifndef BARRIER_KNOWN
#define BARRIER_KNOWN true
#endif

/* Makes them possible for this process; called before it has many threads, since it takes long later. */
void barrier_start(void);

/* Whether barrier_threads() works, and whether barrier_processes() reaches this process's threads. */
bool barrier_has_threads(void);
bool barrier_has_processes(void);

/* All running threads of this process make a full barrier between the beginning of this call and its end; those that do
 * not run have made one. */
void barrier_threads(void);
/* The same for all processes in which barrier_has_processes(). */
void barrier_processes(void);

#endif
