/* SPDX-License-Identifier: BSD-2-Clause */
/* Causes of failures of calls and work requests. cause_say() tells each cause once in a process; a completion with an
 * error has the code in vendor_err; `uroce explain CODE` tells the meaning. Any thread may call; only where something
 * failed. */
#ifndef UROCE_CAUSE_H
#define UROCE_CAUSE_H

#include "base/base.h"

struct pool;

enum cause {
	CAUSE_NONE,
#define CAUSE(code, name, meaning, remedy) CAUSE_##name = (code),
#include "base/cause.def"
#undef CAUSE
	/* added to the cause of an earlier failure of the queue pair: the request was flushed */
	CAUSE_FLUSHED = 0x1000,
};

struct cause_row {
	uint16_t code;
	const char *name, *meaning, *remedy;
};

/* The row of a code, without CAUSE_FLUSHED; NULL: none. */
const struct cause_row *cause_find(uint32_t code);
const struct cause_row *cause_next(const struct cause_row *row); /* cause_next(NULL): the first; after the last: NULL */

/* Logs a cause as a warning, with the code and the remedy: the first time in this process. */
void cause_say(enum cause cause, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* The same at UROCE_LOG=info, for what is not a failure yet. */
void cause_note(enum cause cause, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* How often this process has told or noted that cause, or would have at another UROCE_LOG. */
uint64_t cause_times(enum cause cause);

/* Says CAUSE_SHORTAGE if a call failed with ENOMEM, EMFILE or ENFILE: programs tell only that the call failed. */
void cause_shortage(const char *call, int error) __attribute__((cold));
/* Says why the pool gave no object: as many are alive as a device has, or memory is short. Returns ENOMEM. */
int cause_no_more(const char *call, struct pool *pool, const char *objects) __attribute__((cold));

/* cause_say() in a call that fails; the value is `error`. */
#define because(cause, error, ...) (cause_say(cause, __VA_ARGS__), (error))

#endif
