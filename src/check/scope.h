/* SPDX-License-Identifier: BSD-2-Clause */
/* Classes of findings that are looked for, in this process and in this thread. Any thread; set before HOOK_CHECK. */
#ifndef UROCE_CHECK_SCOPE_H
#define UROCE_CHECK_SCOPE_H

#include "base/base.h"

/* Classes of findings: the words of UROCE_CHECK, in its order. */
enum check_class {
	CHECK_LEAKS,
	CHECK_HABITS,
	CHECK_BUFFERS,
	CHECK_MAPPINGS, /* only on request: caches of registrations outlive mappings on purpose */
	CHECK_RACES,
	CHECK_CLASSES,
};

/* True if findings of the class are looked for. */
bool check_wants(enum check_class class);
/* Switches a class on or off; for check_start(). */
void check_want(enum check_class class, bool wanted);

/* True in liburoce-through.so, for other adapters; then uroce itself checks nothing. */
extern bool check_is_through __attribute__((visibility("hidden")));

/* Start and end of a part in which this thread makes objects of uroce's own. Nests. */
void check_pause(void);
void check_resume(void);
/* True within such a part, or if nothing is checked. */
bool check_is_paused(void);

#endif
