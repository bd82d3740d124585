/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that may be gone, or never have been there: regions registered for paging on demand. The kernel copies, and
 * says so where a plain access would be a signal. About a microsecond a call; other memory is not asked for this way.
 */
#ifndef UROCE_GUARDED_H
#define UROCE_GUARDED_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the kernel lets us: a seccomp filter may not. */
bool guarded_available(void);

/* False: some of it cannot be read, or written (then some of it may have been). */
bool guarded_read(void *to, const char *from, size_t length);
/* As copy_in_order() */
bool guarded_write(char *to, const void *from, size_t length);

/* Makes 8 aligned bytes present and writable, for an atomic that follows at once. False: they cannot be. Whoever
 * unmaps them between the two has taken away what is being used; no adapter would do better but by luck. */
bool guarded_touch(char *at);

/* Makes memory present, and writable if need be. False: some of it cannot be. */
bool guarded_populate(char *at, size_t length, bool write);

#endif
