/* Memory that was there when it was registered, and may have been unmapped or protected since. Adapters pin pages, so
 * that programs get away with it; here an access would be a signal and the program's end. So what may fault is
 * tried: it costs some stores, and no system call. (guarded.h asks the kernel to copy: for memory that is expected to come
 * and go.)
 *
 * The handlers of SIGSEGV and SIGBUS pass on whatever does not happen in a try. Any thread may call all of this.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_FAULT_H
#define UROCE_FAULT_H

#include <stdbool.h>
#include <stddef.h>

/* Installs the handlers, or does so again if the program has installed its own meanwhile; these are called for what
 * is not ours. For whoever registers memory. */
void fault_arm(void);

/* Whether SIGBUS, which an access to a file that has become shorter makes, would come to us now: the program may have a
 * handler of its own by now. Takes a system call. */
bool fault_is_armed(void);

/* Calls access(arg), which takes no lock and leaves nothing half done that matters. False: it has faulted, and was left
 * there. */
bool fault_try(void (*access)(void *arg), void *arg);

/* copy_in_order(). False: it has faulted; some bytes may have been copied. */
bool fault_copy(char *to, const void *from, size_t length);

#endif
