/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/cause.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/pool.h"

static const struct cause_row causes[] = {
#define CAUSE(code, name, meaning, remedy) {code, #name, meaning, remedy},
#include "base/cause.def"
#undef CAUSE
};

enum {
#define CAUSE(code, name, meaning, remedy) INDEX_##name,
#include "base/cause.def"
#undef CAUSE
};

/* A switch, as two rows of one code do not compile then. */
const struct cause_row *cause_find(uint32_t code)
{
	switch (code & ~(uint32_t)CAUSE_FLUSHED) {
#define CAUSE(code, name, meaning, remedy) \
	case code:                         \
		return &causes[INDEX_##name];
#include "base/cause.def"
#undef CAUSE
	default:
		return NULL;
	}
}

const struct cause_row *cause_next(const struct cause_row *row)
{
	row = row ? row + 1 : causes;
	return row < causes + ARRAY_SIZE(causes) ? row : NULL;
}

static _Atomic uint64_t times[ARRAY_SIZE(causes)]; /* relaxed: only one caller gets 0, and nothing else depends on it */

uint64_t cause_times(enum cause cause)
{
	const struct cause_row *row = cause_find(cause);

	return row ? atomic_load_explicit(&times[row - causes], memory_order_relaxed) : 0;
}

static void cause_log(enum log_level level, enum cause cause, const char *format, va_list ap)
{
	const struct cause_row *row = cause_find(cause);
	char text[640];

	if (!row || atomic_fetch_add_explicit(&times[row - causes], 1, memory_order_relaxed) || !uroce_log_on(level))
		return;
	vsnprintf(text, sizeof(text), format, ap);
	uroce_log(level, "%s: %s (cause 0x%x)", text, row->remedy, row->code);
}

void cause_say(enum cause cause, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	cause_log(LOG_WARN, cause, format, ap);
	va_end(ap);
}

void cause_note(enum cause cause, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	cause_log(LOG_INFO, cause, format, ap);
	va_end(ap);
}

int cause_no_more(const char *call, struct pool *pool, const char *objects)
{
	if (pool_is_full(pool))
		return because(CAUSE_CREATE_MANY, ENOMEM, "%s: the device has %u %s, all it can", call, pool_used(pool),
			       objects);
	return because(CAUSE_SHORTAGE, ENOMEM, "%s: %s", call, strerror(ENOMEM));
}

void cause_shortage(const char *call, int error)
{
	if (error == ENOMEM || error == EMFILE || error == ENFILE)
		cause_say(CAUSE_SHORTAGE, "%s: %s", call, strerror(error));
}
