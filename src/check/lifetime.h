/* SPDX-License-Identifier: BSD-2-Clause */
/* Creation, change and destruction of the program's objects. Without UROCE_CHECK, a call costs the branch of
 * hooks_any(). Any thread; keeps errno; an object's `lock` is never held here. A child of fork() is not checked. */
#ifndef UROCE_CHECK_LIFETIME_H
#define UROCE_CHECK_LIFETIME_H

#include "base/hooks.h"
#include "check/objects.h"

/* Adds an object that was created, and what it uses. */
void check_add(enum check_kind kind, const void *object, uint64_t size, const void *const uses[CHECK_USES]);
/* Removes an object that is about to be freed. */
void check_remove(enum check_kind kind, const void *object);
/* Reports that an object was not destroyed: others use it, or, if none of these is known, for `reason`. */
void check_refused(enum check_kind kind, const void *object, const char *reason);

/* Replaces the size, the stack and the first used object of an object that was created again here. */
void check_remade(enum check_kind kind, const void *object, uint64_t size, const void *used);
/* Replaces the first object that `object` uses. */
void check_uses(enum check_kind kind, const void *object, const void *used);
/* Reports an object that is destroyed although others may use it. */
void check_orphaned(enum check_kind kind, const void *object);

/* Reports the use of an unknown object if it has been destroyed: then true. `use`: such as "posted to". */
bool check_dead(enum check_kind kind, const void *object, const char *use);
bool check_knows(enum check_kind kind, const void *object);
/* Frees the memory of a destroyed object: much later, as the program may use it still. */
void check_free(void *memory);

/* Adds an object; further arguments: what it uses. Not for an object whose creation failed. */
#define check_made(kind, object, size, ...)                                                          \
	do {                                                                                         \
		if (hooks_any())                                                                     \
			check_add(kind, object, size, (const void *const[CHECK_USES]){__VA_ARGS__}); \
	} while (0)
/* Removes an object that is about to be freed. */
#define check_gone(kind, object)                    \
	do {                                        \
		if (hooks_any())                    \
			check_remove(kind, object); \
	} while (0)
/* Reports a refused destruction. */
#define check_busy(kind, object) check_busy_as(kind, object, NULL)
#define check_busy_as(kind, object, reason)                  \
	do {                                                 \
		if (hooks_any())                             \
			check_refused(kind, object, reason); \
	} while (0)

#endif
