/* SPDX-License-Identifier: BSD-2-Clause */
/* The program makes, changes and destroys its objects. Off (UROCE_CHECK is unset), a call costs the branch of
 * hooks_any(). Any thread; keeps errno; `lock`s of objects are never held here. A child of fork() is not checked. */
#ifndef UROCE_CHECK_LIFETIME_H
#define UROCE_CHECK_LIFETIME_H

#include "base/hooks.h"
#include "check/objects.h"

/* The object was made, and uses those. */
void check_add(enum check_kind kind, const void *object, uint64_t size, const void *const uses[CHECK_USES]);
/* The object is about to be freed. */
void check_remove(enum check_kind kind, const void *object);
/* The destruction of an object was refused, as others use it; or, if none of these is known, for that reason. */
void check_refused(enum check_kind kind, const void *object, const char *reason);

/* The object was made once more, here: its size and what it uses first have changed. */
void check_remade(enum check_kind kind, const void *object, uint64_t size, const void *used);
/* The object uses another one now, in place of the first. */
void check_uses(enum check_kind kind, const void *object, const void *used);
/* The object is destroyed, though others may use it. */
void check_orphaned(enum check_kind kind, const void *object);

/* The object is unknown, and is used: has it been destroyed? `use`: "posted to". */
void check_dead(enum check_kind kind, const void *object, const char *use);

/* An object was made; then what it uses. Not called for what failed. */
#define check_made(kind, object, size, ...)                                                          \
	do {                                                                                         \
		if (hooks_any())                                                                     \
			check_add(kind, object, size, (const void *const[CHECK_USES]){__VA_ARGS__}); \
	} while (0)
/* An object is about to be freed. */
#define check_gone(kind, object)                    \
	do {                                        \
		if (hooks_any())                    \
			check_remove(kind, object); \
	} while (0)
/* The destruction of an object was refused. */
#define check_busy(kind, object) check_busy_as(kind, object, NULL)
#define check_busy_as(kind, object, reason)                  \
	do {                                                 \
		if (hooks_any())                             \
			check_refused(kind, object, reason); \
	} while (0)

#endif
