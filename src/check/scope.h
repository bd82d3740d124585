/* SPDX-License-Identifier: BSD-2-Clause */
/* What `uroce check` looks for, in this process and in this thread. Any thread; set before HOOK_CHECK. */
#ifndef UROCE_CHECK_SCOPE_H
#define UROCE_CHECK_SCOPE_H

#include "base/base.h"

/* Classes of findings: the words of UROCE_CHECK, in its order. */
enum check_class {
	CHECK_LEAKS,
	CHECK_HABITS,
	CHECK_BUFFERS,
	CHECK_MAPPINGS, /* only if asked for: caches of registrations outlive mappings knowingly */
	CHECK_RACES,
	CHECK_CLASSES,
};

/* Whether findings of that class are looked for. */
bool check_wants(enum check_class class);
/* They are, from now on, or no longer; for check_start(). */
void check_want(enum check_class class, bool wanted);

/* This is liburoce-through.so, for other adapters. With it, uroce itself looks at nothing. */
extern bool check_is_through __attribute__((visibility("hidden")));

/* Between the two, this thread makes objects of uroce's own. May be nested. */
void check_pause(void);
void check_resume(void);
/* True between them, or if nothing is checked. */
bool check_is_paused(void);

#endif
