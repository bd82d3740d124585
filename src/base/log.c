/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/wrap.h"

bool uroce_log_on(enum log_level level)
{
	static _Atomic int threshold = -1; /* relaxed: every thread computes the same value */
	int t = atomic_load_explicit(&threshold, memory_order_relaxed);

	if (t < 0) {
		t = config_enum(CONFIG_LOG); /* its words have the order of enum log_level */
		atomic_store_explicit(&threshold, t, memory_order_relaxed);
	}
	return (int)level <= t;
}

void uroce_log(enum log_level level, const char *format, ...)
{
	static const char prefix[] = "uroce: ";
	char line[1024], lines[sizeof(line) + 512];
	int saved = errno;
	size_t n;
	va_list ap;

	if (!uroce_log_on(level))
		return;
	memcpy(line, prefix, sizeof(prefix));
	va_start(ap, format);
	vsnprintf(line + sizeof(prefix) - 1, sizeof(line) - sizeof(prefix), format, ap);
	va_end(ap);
	n = wrap_lines(lines, sizeof(lines), line, wrap_columns(STDERR_FILENO));
	/* one write: lines of several processes on one terminal do not mix */
	if (write(STDERR_FILENO, lines, n) < 0) {
		/* stderr is closed: the message is lost */
	}
	errno = saved;
}
