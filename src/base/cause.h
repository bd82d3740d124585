/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a call or a work request failed. cause_say() tells each cause once in a process; a completion with an error
 * carries its code in vendor_err; `uroce explain CODE` says what it means. Any thread; only where something failed. */
#ifndef UROCE_CAUSE_H
#define UROCE_CAUSE_H

#include "base/base.h"

struct pool;

enum cause {
	CAUSE_NONE,
#define CAUSE(code, name, meaning, remedy) CAUSE_##name = (code),
#include "base/cause.def"
#undef CAUSE
	/* Added to the cause of an earlier failure of the queue pair: this request was flushed. */
	CAUSE_FLUSHED = 0x1000,
};

struct cause_row {
	uint16_t code;
	const char *name, *meaning, *remedy;
};

/* NULL: there is none. CAUSE_FLUSHED is ignored. */
const struct cause_row *cause_find(uint32_t code);
const struct cause_row *cause_next(const struct cause_row *row); /* NULL: the first; the last is followed by NULL */

/* Logs it as a warning, with the code and the remedy: the first time in this process. */
void cause_say(enum cause cause, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* The same at UROCE_LOG=info, of what is no failure yet. */
void cause_note(enum cause cause, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Of a call that fails with ENOMEM, EMFILE or ENFILE, says CAUSE_SHORTAGE: programs tell only that the call failed. */
void cause_shortage(const char *call, int error) __attribute__((cold));
/* The pool gave no object: says whether as many are alive as a device has, or memory is short. Returns ENOMEM. */
int cause_no_more(const char *call, struct pool *pool, const char *objects) __attribute__((cold));

/* The same for a call that fails; returns `error`. */
#define because(cause, error, ...) (cause_say(cause, __VA_ARGS__), (error))

#endif
