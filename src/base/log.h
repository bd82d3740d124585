/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages to the user on stderr, one line each: what was wrong, with which value, what to do.
 * UROCE_LOG=error|warn|info|debug sets the level (default: warn). Any thread; not on the common path. */
#ifndef UROCE_LOG_H
#define UROCE_LOG_H

#include <stdbool.h>

enum log_level {
	LOG_ERROR,
	LOG_WARN,
	LOG_INFO,
	LOG_DEBUG,
};

/* Writes a message. Keeps errno. No newline at the end of `format`. */
void uroce_log(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* True if messages of this level are written. For messages that are expensive to build. */
bool uroce_log_on(enum log_level level);

#define log_error(...) uroce_log(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  uroce_log(LOG_WARN, __VA_ARGS__)
#define log_info(...)  uroce_log(LOG_INFO, __VA_ARGS__)
#define log_debug(...) uroce_log(LOG_DEBUG, __VA_ARGS__)

#endif
