/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that may not be present: regions registered for paging on demand. The kernel copies, and returns an error
 * where a plain access would raise a signal. About a microsecond a call, so other memory does not use it. Any thread
 * may call. */
#ifndef UROCE_GUARDED_H
#define UROCE_GUARDED_H

#include <stdbool.h>
#include <stddef.h>

/* True if the kernel allows it: a seccomp filter may not. */
bool guarded_available(void);

/* False: some of it cannot be read or written (some of it may have been written). */
bool guarded_read(void *to, const char *from, size_t length);
/* As copy_in_order() */
bool guarded_write(char *to, const void *from, size_t length);

/* Makes 8 aligned bytes present and writable, for an atomic that follows at once. False: not possible. If the program
 * unmaps them in between, it removes memory in use; an adapter would not be safe either. */
bool guarded_touch(char *at);

/* Makes memory present, and writable if `write`. False: not possible for some of it. */
bool guarded_populate(char *at, size_t length, bool write);

#endif
